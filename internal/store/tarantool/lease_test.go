package tarantool

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestLease(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	d, ctx := NewDicts(c, nil), t.Context()
	a, b, other := d.Lease("x", "a"), d.Lease("x", "b"), d.Lease("y", "b")
	take := func(l *Lease, hold time.Duration, want bool) {
		t.Helper()
		wait, err := l.Acquire(ctx, hold)
		if err != nil || (wait == 0) != want || wait > time.Hour {
			t.Fatalf("to wait %v (%v), want the turn: %v", wait, err, want)
		}
	}
	finish := func(l *Lease, pause time.Duration) {
		t.Helper()
		if err := l.Release(ctx, pause); err != nil {
			t.Fatal(err)
		}
	}
	take(a, time.Hour, true)
	take(b, time.Hour, false)
	take(other, time.Hour, true)
	if kept, err := b.Renew(ctx, time.Hour); kept || err != nil {
		t.Errorf("b keeps a's turn: %v", err)
	}
	if kept, err := a.Renew(ctx, time.Hour); !kept || err != nil {
		t.Errorf("a doesn't keep its turn: %v", err)
	}
	finish(b, 0) // not b's turn
	take(b, time.Hour, false)
	finish(a, 0)
	take(b, time.Hour, true)
	finish(b, time.Hour)
	take(a, time.Hour, false) // the pause applies to all
	if text, _, err := d.Record(ctx, leasesRecord); err != nil || !strings.Contains(text, `"x"`) || strings.Contains(text, `"holder":"a"`) {
		t.Errorf("%s, %v", text, err)
	}
	z := d.Lease("z", "a")
	take(z, time.Millisecond, true)
	testenv.Eventually(t, "a holder that doesn't extend its turn loses it", func() bool {
		kept, err := z.Renew(ctx, time.Millisecond)
		return !kept && err == nil
	})
	finish(other, 0)
	if text, _, _ := d.Record(ctx, leasesRecord); strings.Contains(text, `"z"`) || strings.Contains(text, `"y"`) {
		t.Errorf("what has ended stays: %s", text)
	}
}

// TestLeaseIsOnes: of many concurrent takers one gets the turn.
func TestLeaseIsOnes(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	var taken atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if wait, err := NewDicts(c, nil).Lease("x", fmt.Sprint(i)).Acquire(t.Context(), time.Hour); err == nil && wait == 0 {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 {
		t.Errorf("%d have the turn", taken.Load())
	}
}
