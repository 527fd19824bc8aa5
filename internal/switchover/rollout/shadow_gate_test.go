package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// The mirror's verdict opens the gate if it is PASS, for the right target, recent enough, and with a margin
// that is narrow enough.
func TestLatency(t *testing.T) {
	good := func() *shadow.Report {
		return &shadow.Report{
			Outcome: "PASS", Test: "10.0.0.9:5432", Began: time.Now().Add(-time.Hour), Series: []shadow.Point{{At: time.Now()}},
			Metrics: []shadow.MetricState{{Name: "p99 of reads", Margin: 0.1, Judged: true}},
		}
	}
	for _, c := range []struct {
		change func(*shadow.Report)
		want   string
	}{
		{func(*shadow.Report) {}, ""},
		{func(r *shadow.Report) { r.Outcome, r.Reasons = "FAIL", []string{"p99 of reads +31 %"} }, "verdict is FAIL: p99 of reads +31 %"},
		{func(r *shadow.Report) { r.Outcome = "VOID" }, "verdict is VOID"},
		{func(r *shadow.Report) { r.Outcome = "INCONCLUSIVE" }, "INCONCLUSIVE for 1s"},
		{func(r *shadow.Report) { r.Test = "10.0.0.8:5432" }, `test target is "10.0.0.8:5432"`},
		{func(r *shadow.Report) { r.Series[0].At = time.Now().Add(-25 * time.Hour) }, "25h0m0s ago"},
		{func(r *shadow.Report) { r.Metrics[0].Margin = 0.2 }, "margin for p99 of reads is 0.2"},
		{func(r *shadow.Report) { r.Metrics[0].Judged = false }, "no verdict on latency"},
		{func(r *shadow.Report) { r.Outcome = "" }, "not a report"},
	} {
		r := good()
		c.change(r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{inFile(t, text), onPage(t, text)} {
			if err := latencyOf(t.Context(), at); c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrGate) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, should say %q", at, err, c.want)
			}
		}
	}
	if err := latencyOf(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrGate) {
		t.Errorf("no report: %v", err)
	}
}

func latencyOf(ctx context.Context, report string) error {
	c := &Cell{}
	c.Gates.Shadow = Shadow{Report: report, Test: "10.0.0.9:5432", Wait: config.Duration(time.Second)}
	c.Gates.Shadow.fill()
	p := preparation{&task{cell: c, log: func(string, ...any) {}}}
	return p.latency(ctx)
}

func inFile(t *testing.T, text []byte) string {
	name := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func onPage(t *testing.T, text []byte) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/report" {
			_, _ = w.Write(text)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
