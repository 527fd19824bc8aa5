package shadow

import (
	"context"
	"strings"
	"testing"
	"time"
)

// deaf is a Protocol whose test target neither answers nor tells what it does.
type deaf struct{ hanging }

func (deaf) Look(context.Context, Conn, Conn) Progress { return Silent }

// A target that does not tell what it does is given up by waiting operations, however long the first one took
// in production.
func TestTargetThatIsSilent(t *testing.T) {
	r := New(Config{Protocol: deaf{}, Wait: time.Millisecond, Patience: 20 * time.Millisecond})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mirror.do(t.Context(), func() {
		r.mirror.submit(r.ctx, 1, []*Operation{{Kind: Write, TouchesAll: true, Production: Answer{Took: 24 * time.Hour}}})
		r.mirror.submit(r.ctx, 2, []*Operation{{Kind: Write, TouchesAll: true}})
	})
	<-r.Over()
	if got := r.Report(); got.Outcome != "VOID" || !strings.Contains(strings.Join(got.Reasons, "; "), errSilent.Error()) {
		t.Errorf("%s %q: %+v", got.Outcome, got.Reasons, got.Compared)
	}
}

// Operations that took long in production may take long at a target. Those answered in one piece ran
// concurrently.
func TestPatienceHasProductionsTime(t *testing.T) {
	target := newTarget("test", test, Config{}.Test, Config{}.withDefaults(), nil)
	for _, c := range []struct{ first, second, want time.Duration }{
		{0, 0, 10 * time.Second},
		{time.Minute, 0, 10*time.Minute + 10*time.Second},
		{time.Second, time.Minute, 10*time.Minute + 10*time.Second},
	} {
		if got := target.patienceFor([]*Operation{{Production: Answer{Took: c.first}}, {Production: Answer{Took: c.second}}}); got != c.want {
			t.Errorf("%v and %v in production: %v, not %v", c.first, c.second, got, c.want)
		}
	}
}
