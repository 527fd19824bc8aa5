package tarantool

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// push and take allocate nothing, once the session has handled some requests.
func TestOutstandingAllocatesNothing(t *testing.T) {
	a := memory.NewBudget(1<<20).Share("test").Account(nil, nil)
	wait := func() error { return nil }
	o := newOutstanding(a, a, wait, wait)
	sync := uint64(0)
	exchanges := func() {
		for range 10 {
			sync++
			if !o.push(sync, exchange{kind: wire.Select}) {
				t.Fatal("closed")
			}
		}
		for n := range uint64(10) {
			if _, ok := o.take(sync - n); !ok {
				t.Fatal("lost")
			}
		}
	}
	exchanges()
	if n := testing.AllocsPerRun(100, exchanges); n > 0 {
		t.Errorf("%v allocations for 10 requests", n)
	}
}

// The memory for the requests of a client that reads no replies is taken from the budget, and so limited.
func TestOutstandingTakesBudget(t *testing.T) {
	budget := memory.NewBudget(1 << 20)
	share := budget.Share("g")
	requests, replies := share.Account(nil, nil), share.Account(nil, nil)
	defer requests.Close()
	defer replies.Close()
	full, done := make(chan struct{}), make(chan uint64)
	waited := false
	o := newOutstanding(requests, replies, func() error {
		if !waited {
			waited = true
			close(full)
		}
		return nil
	}, nil)
	go func() {
		n := uint64(0)
		for o.push(n, exchange{kind: wire.Ping}) {
			n++
		}
		done <- n
	}()
	<-full
	if used := budget.InUse(); used == 0 || used > 1<<20 {
		t.Errorf("%d bytes of the budget are in use", used)
	}
	for n := range uint64(10) {
		if _, ok := o.take(n); !ok {
			t.Errorf("number %d is missing", n)
		}
	}
	o.close()
	if n, most := <-done, uint64(freeOutstanding+1<<20/exchangeBytes+10); n < freeOutstanding || n > most {
		t.Errorf("%d exchanges, at most %d have room", n, most)
	}
	if used := budget.InUse(); used != 0 {
		t.Errorf("%d bytes of the budget are kept", used)
	}
}

// If a request enters a queue just before a request ahead of it is refused, it is sent with the old stamp, refused
// too, and sent again behind that request. unpark does not wait for a request that the gateway does not send.
func TestRequestsInBetweenKeepTheirPlace(t *testing.T) {
	for _, sent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a := memory.NewBudget(1<<20).Share("test").Account(nil, nil)
			defer a.Close()
			wait := func() error { return nil }
			o := newOutstanding(a, a, wait, wait)
			const stream, stamp = 5, 7
			o.push(1, exchange{kind: wire.Insert, stream: stream, stamp: stamp})
			if got, ok := o.reserve(stream, false, nil); got != stamp || !ok {
				t.Fatalf("stamp %d, %v", got, ok)
			}
			parked, first, _ := o.parkRefused(1, func(*exchange) {})
			if !parked || !first {
				t.Fatal("the first was not parked")
			}
			var again []uint64
			unparked := false
			go func() {
				for _, p := range o.unpark(stream) {
					again = append(again, p.sync)
				}
				unparked = true
			}()
			synctest.Wait()
			if unparked {
				t.Fatal("the first is sent again before the second has been sent")
			}
			want := []uint64{1}
			if sent {
				o.push(2, exchange{kind: wire.Delete, stream: stream, stamp: stamp})
				synctest.Wait()
				if unparked {
					t.Fatal("the first is sent again before the second was refused")
				}
				if parked, first, _ := o.parkRefused(2, func(*exchange) {}); !parked || first {
					t.Error("the second was not parked behind it")
				}
				want = append(want, 2)
			} else {
				o.cancelReservation()
			}
			synctest.Wait()
			if !unparked || !slices.Equal(again, want) {
				t.Errorf("sent again: %v", again)
			}
		})
	}
}

func TestExchangesWithOneSync(t *testing.T) {
	var x exchanges
	for n := range int16(3) {
		x.add(7, &exchange{tries: n})
	}
	x.update(func(e *exchange) bool { e.stream = 1; return true })
	if !x.any(func(e *exchange) bool { return e.tries == 2 && e.stream == 1 }) {
		t.Error("the last is not found")
	}
	for n := range int16(3) {
		if e, ok := x.take(7); !ok || e.tries != n {
			t.Errorf("%d in place of %d", e.tries, n)
		}
	}
	if _, ok := x.take(7); ok || x.count != 0 || len(x.duplicates) > 0 {
		t.Error("one is left")
	}
}

func TestOriginalsTakeBudget(t *testing.T) {
	budget := memory.NewBudget(1 << 20)
	o := retryBuffer{budget: budget.Share("test").Account(nil, nil)}
	f := frame{bytes: make([]byte, maxKept)}
	var free, held, none exchange
	if !o.keep(&free, &f, 0) || free.budgetBytes != 0 || !o.keep(&held, &f, 1) || held.budgetBytes != 2*maxKept {
		t.Errorf("%d bytes of the budget", held.budgetBytes)
	}
	if o.keep(&none, &f, 100) || none.original != nil {
		t.Error("more than the budget was kept")
	}
	o.drop(&held)
	o.drop(&held)
	o.drop(&free)
	if o.kept != 0 || budget.InUse() != 0 {
		t.Errorf("%d and %d bytes are left", o.kept, budget.InUse())
	}
}
