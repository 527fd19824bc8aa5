package shadow

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Reads of 60 µs that are 10 µs slower pass with an absolute margin of 20 µs, and fail with the share alone,
// both all reads together and their fingerprint. The same holds for a run that continues from a state.
func TestAbsoluteMarginOfFastReads(t *testing.T) {
	for margin, want := range map[time.Duration]string{20 * time.Microsecond: "PASS", 0: "FAIL"} {
		cfg := Config{Margins: Margins{Absolute: margin}}
		first := New(cfg)
		cfg.State = filepath.Join(t.TempDir(), "state.json")
		begun, second := New(cfg), New(cfg)
		first.phase, begun.phase, second.phase = Testing, Testing, Testing
		r := rand.New(rand.NewPCG(1, 3))
		for i := range 60 {
			b := newBatch(time.Time{})
			for range 400 {
				took := time.Duration(60_000 + 1000*r.NormFloat64())
				b.add(&Operation{Kind: Read, Name: "GET", answers: [targets]Answer{{Took: took}, {Took: took + 10*time.Microsecond}}})
			}
			first.observe(b)
			if i < 3 {
				begun.observe(b)
				continue
			}
			if i == 3 {
				if err := second.Load(); err != nil {
					t.Fatal(err)
				}
			}
			second.observe(b)
		}
		for _, run := range []*Run{first, second} {
			got := run.Report()
			if got.Outcome != want || want == "PASS" && len(got.Slower) > 0 || want == "FAIL" && len(got.Slower) != 1 {
				t.Errorf("with %v: %s, slower %v, %+v", margin, got.Outcome, got.Slower, got.Metrics[0])
			}
			var text bytes.Buffer
			if err := got.Text(&text); err != nil {
				t.Fatal(err)
			}
			if shown := strings.Contains(strings.Join(strings.Fields(text.String()), " "), "reads p50 +33%"); shown != (margin > 0) {
				t.Errorf("with %v the report is %s", margin, &text)
			}
		}
	}
}
