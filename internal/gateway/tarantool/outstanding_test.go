package tarantool

import (
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// What every request passes through allocates nothing, once the session has seen some.
func TestOutstandingAllocatesNothing(t *testing.T) {
	a := gateway.NewBudget(1<<20).Share("test").Account(nil, nil)
	o := newOutstanding(a, &originals{budget: a})
	wait := func() error { return nil }
	sync := uint64(0)
	exchanges := func() {
		for range 10 {
			sync++
			if !o.push(sync, exchange{kind: wire.Select}, wait) {
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

// What a client has asked for and takes no replies to is bounded in bytes.
func TestOutstandingTakesBudget(t *testing.T) {
	budget := gateway.NewBudget(1 << 20)
	share := budget.Share("g")
	requests, replies := share.Account(nil, nil), share.Account(nil, nil)
	defer requests.Close()
	defer replies.Close()
	o := newOutstanding(replies, &originals{budget: requests})
	full, done := make(chan struct{}), make(chan uint64)
	go func() {
		n, waited := uint64(0), false
		for o.push(n, exchange{kind: wire.Ping}, func() error {
			if !waited {
				waited = true
				close(full)
			}
			return nil
		}) {
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
