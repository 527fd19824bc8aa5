package otlp

import "testing"

// Record returns requests of each kind: a benchmark must not silently measure nothing.
func TestRecord(t *testing.T) {
	requests, err := Record(t.Context(), 4*customers)
	if err != nil {
		t.Fatal(err)
	}
	for name, messages := range map[string][][]byte{"traces": requests.Traces, "metrics": requests.Metrics, "logs": requests.Logs} {
		n := 0
		for _, m := range messages {
			n += len(m)
		}
		t.Logf("%s: %d messages, %d bytes", name, len(messages), n)
		if n < 10_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}
