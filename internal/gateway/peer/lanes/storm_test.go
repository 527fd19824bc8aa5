package lanes

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

var stormCalls = flag.Int("lanes.calls", 600, "calls of each kind in the storm")

// storm makes many calls over a link at a time, which end in all possible ways.
type storm struct {
	t *testing.T
	p *pair

	order  sync.RWMutex // what is written to the link; held alone while the lanes are forgotten
	opened atomic.Int64 // in lanes
	stale  sync.WaitGroup
}

// Calls interleave, are cancelled, answered early and cut, while lanes are dropped and memory is short. Each message of
// a call that was not given up is decompressed correctly.
func TestStorm(t *testing.T) {
	for _, bytes := range []int64{plenty, 3 << 20} {
		s := &storm{t: t, p: newPair(bytes, bytes)}
		var calls sync.WaitGroup
		for n := range 12 {
			r := rand.New(rand.NewPCG(uint64(n), 3))
			calls.Go(func() {
				for range *stormCalls / 12 {
					s.request(r)
					s.reply(r)
				}
			})
		}
		stop := make(chan struct{})
		var forgets sync.WaitGroup
		forgets.Go(func() { s.forget(stop) })
		calls.Wait()
		close(stop)
		forgets.Wait()
		s.stale.Wait()
		s.p.near.Close()
		s.p.far.Close()
		if left := []int64{s.p.nearHas.left(), s.p.farHas.left()}; left[0] != bytes || left[1] != bytes {
			t.Errorf("of %d bytes %d are left", bytes, left)
		}
		a, b := &s.p.nearS.Tally, &s.p.farS.Tally
		if n := a.Broken.Load() + b.Broken.Load(); n > 0 {
			t.Errorf("%d messages were taken for damaged", n)
		}
		t.Logf("%d messages were opened in lanes, %d went alone, %d sessions, %d stale ones refused", s.opened.Load(),
			a.Alone.Load()+b.Alone.Load(), a.Begun.Load()+b.Begun.Load(), a.Refused.Load()+b.Refused.Load())
		if s.opened.Load() == 0 {
			t.Error("no lane was used")
		}
	}
}

// forget drops the sessions of both ends whenever the near end can, in the order of a DROP: between two messages.
func (s *storm) forget(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		s.order.Lock()
		if s.p.near.Writers.Forget() {
			s.p.far.Readers.Forget()
		}
		if s.p.far.Writers.Forget() {
			s.p.near.Readers.Forget()
		}
		s.order.Unlock()
		runtime.Gosched()
	}
}

// take decompresses a message, or records that it was refused.
func (s *storm) take(i *In, m sent) error {
	runtime.Gosched()
	err := open(s.t, i, m)
	if err == nil && m.sealed {
		s.opened.Add(1)
	}
	if err != nil && !errors.Is(err, ErrOrder) {
		s.t.Error(err)
	}
	return err
}

// request makes a call with several messages, which the far end reads as they arrive.
func (s *storm) request(r *rand.Rand) {
	all := make(chan sent, 10)
	answer := make(chan int64, 1)
	out, in := s.p.near.Writers.Request(), s.p.far.Readers.Request()
	count, early := 1+r.IntN(4), r.IntN(8) == 0
	var cancelled atomic.Bool
	s.stale.Go(func() {
		for m := range all {
			if err := s.take(in, m); err != nil && !cancelled.Load() && !early {
				s.t.Error(err)
			}
			if early {
				break
			}
		}
		answer <- in.Opened()
		for m := range all { // it is no longer wanted
			_ = s.take(in, m)
		}
	})
	for range count {
		s.order.RLock()
		all <- seal(out, message(r, 1+r.IntN(40)))
		s.order.RUnlock()
		runtime.Gosched()
	}
	if r.IntN(6) == 0 {
		cancelled.Store(true)
		out.Done(-1)
		close(all)
		return
	}
	if !early {
		close(all)
	}
	n := <-answer
	s.p.rooms(out)
	out.Done(n)
	if early {
		close(all)
	}
}

// reply makes a call whose reply the near end reads.
func (s *storm) reply(r *rand.Rand) {
	all := make(chan sent, 10)
	s.order.RLock()
	in := s.p.near.Readers.Reply()
	s.order.RUnlock()
	fails := r.IntN(8) == 0
	seed := r.Uint64()
	s.stale.Go(func() {
		r := rand.New(rand.NewPCG(seed, 5))
		out := s.p.far.Writers.Reply(s.p.far.Writers.Assigned(in.Header()))
		for range 1 + r.IntN(4) {
			s.order.RLock()
			all <- seal(out, message(r, 1+r.IntN(40)))
			s.order.RUnlock()
			runtime.Gosched()
		}
		if fails { // it has sealed what it can't send
			seal(out, message(r, 5))
		}
		out.Sent(!fails)
		close(all)
	})
	for m := range all {
		if s.take(in, m) != nil {
			s.t.Error("a reply was refused")
		}
		if r.IntN(10) == 0 { // cancelled, whatever still comes
			in.Done(false)
			return
		}
	}
	in.Done(true)
}
