package shadow

import (
	"bytes"
	"fmt"
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

// A frequent operation is judged by itself, however many names were seen once before it.
func TestOperationBehindManyNames(t *testing.T) {
	r := New(Config{})
	r.phase = Testing
	for i := range 60 {
		b := newBatch(time.Time{})
		for n := range maxNames {
			b.add(&Operation{Kind: Read, Name: fmt.Sprintf("once %d %d", i, n)})
		}
		for n := range 400 {
			took := time.Duration(1000+n%7) * time.Microsecond
			b.add(&Operation{Kind: Read, Name: "hot", answers: [targets]Answer{{Took: took}, {Took: took + took*time.Duration(80+7*(i*13%11))/100}}})
			b.add(&Operation{Kind: Read, Name: "warm", answers: [targets]Answer{{Took: took}, {Took: took}}})
		}
		r.observe(b)
	}
	got := r.Report()
	if got.Outcome != "FAIL" || len(got.Slower) != 1 || got.Slower[0] != "hot" {
		t.Errorf("%s, slower are %v", got.Outcome, got.Slower)
	}
	var named int64
	for _, n := range got.Names {
		named += n.Count
	}
	if all := int64(60 * (maxNames + 800)); named+got.Unnamed != all {
		t.Errorf("%d are in names and %d in none, of %d", named, got.Unnamed, all)
	}
	var text bytes.Buffer
	if err := got.Text(&text); err != nil || !strings.Contains(text.String(), fmt.Sprintf("%d operations were judged only with all reads or writes", got.Unnamed)) {
		t.Errorf("%v: %s", err, &text)
	}
}
