package redis

import (
	"fmt"
	"strings"
	"testing"
)

// A run reports the memory that both targets use by their own figures, at the beginning and at the end, and
// the CPU time in between.
func TestUsage(t *testing.T) {
	b := newBench(t, nil)
	c, value := b.client(t), strings.Repeat("x", 100<<10)
	const keys = 50
	for i := range keys {
		if err := c.Set(t.Context(), fmt.Sprint("key:", i), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r := b.settle(t)
	if r.Begin == nil || r.End == nil {
		t.Fatalf("begin %v, end %v", r.Begin, r.End)
	}
	for i, u := range []struct{ before, after int64 }{{r.Begin.Control.Server, r.End.Control.Server}, {r.Begin.Test.Server, r.End.Test.Server}} {
		if u.before <= 0 || u.after < u.before+keys*int64(len(value)) {
			t.Errorf("target %d: %d bytes, then %d", i, u.before, u.after)
		}
	}
	for _, u := range []float64{r.End.Control.CPU - r.Begin.Control.CPU, r.End.Test.CPU - r.Begin.Test.CPU} {
		if u <= 0 {
			t.Errorf("CPU of %g s", u)
		}
	}
	if e := r.End.Control; e.ServerBy != "used_memory" || len(e.Missing) > 0 {
		t.Errorf("%+v", e)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "used_memory, at the end") || !strings.Contains(text.String(), "CPU of the server") {
		t.Errorf("%v: %s", err, &text)
	}
}
