package tarantool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// TestStreamQueue checks the state of a queue while requests that can be refused are unanswered, and that the queue is
// removed afterwards.
func TestStreamQueue(t *testing.T) {
	var a streamQueues
	list := []*exchange{{stamp: 5}, {stamp: 5}, {}}
	for _, e := range list {
		a.assignOrder(e)
		a.add(e)
	}
	if l := a.byStream[0]; l.refusable != 2 || l.nextStamp() != 5 || list[2].order != 3 || !l.beginProbe(0) || l.beginProbe(0) || l.beginProbe(1) {
		t.Errorf("%+v", l)
	}
	l := a.get(0)
	l.parked = append(l.parked, parked{2, *list[1]}, parked{1, *list[0]})
	if first := l.firstParked(); first.order != 1 {
		t.Errorf("first %d", first.order)
	}
	if got := l.takeParked(); len(got) != 2 || got[0].sync != 1 || l.parked != nil {
		t.Errorf("%+v", got)
	}
	if !a.remove(list[0]) || a.remove(list[2]) || a.byStream[0] == nil {
		t.Error("an answer without a stamp counts, or one too many is forgotten")
	}
	if a.remove(list[1]); a.byStream[0] != nil || a.anyRetrying() {
		t.Error("an idle queue is kept")
	}
}

// A request that must be alone in its queue sends a probe, and waits until no other can be refused.
func TestRequestsWaitForTheirQueue(t *testing.T) {
	p := newParts(t)
	p.sends(1, 9, wire.Insert, 0x10, 600, 0x21, []any{1})
	if stamp, ok := p.s.outstanding.reserve(0, false, nil); stamp != 9 || !ok {
		t.Errorf("stamp %d", stamp)
	}
	if stamp, ok := p.s.outstanding.reserve(5, true, nil); stamp != 0 || !ok {
		t.Errorf("stamp %d in another stream", stamp)
	}
	in := make(chan uint64)
	go func() {
		stamp, _ := p.s.outstanding.reserve(0, true, nil)
		in <- stamp
	}()
	probe := p.server.next(t)
	p.reply(wire.OK, probe.header.Sync)
	if stamp := <-in; stamp != 0 {
		t.Errorf("stamp %d, alone", stamp)
	}
	if p.s.outstanding.retryBuffer.kept != 0 {
		t.Error("a request that can't be refused any more is kept")
	}
	p.reply(wire.OK, 1)
	p.client.expect(t, wire.OK, 1, 9)
}

// If there is no memory for a copy of a request to which only the stamp of its queue would be added, the request is
// sent unchanged when the queue is empty, even if a key in it begins like an envelope. That is not counted as a
// shortage of memory.
func TestOnlyAStampWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParts(t)
		p.sends(1, 9, wire.Insert, 0x10, 600, 0x21, []any{1, abc})
		kept := &p.s.outstanding.retryBuffer
		kept.kept = maxKept
		taken := int64(0)
		for n := int64(1 << 20); n > 0; n /= 2 {
			if kept.budget.TryAcquire(n) {
				taken += n
			}
		}
		handled := make(chan error)
		go func() {
			f := frame{encode(t, wire.Update, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{envelope.Magic}, 0x21, []any{[]any{"=", 4, 5}}}), 5}
			err := p.s.handleRequest(&f)
			handled <- errors.Join(err, p.s.toServer.flush(), p.s.toClient.flush())
		}()
		synctest.Wait() // until the request waits for the queue to be empty
		p.reply(wire.OK, 1, 0x30, []any{[]any{1, abc}})
		p.client.expect(t, wire.OK, 1, 9)
		if err := <-handled; err != nil {
			t.Fatal(err)
		}
		p.client.nothing(t)
		if probe := p.server.next(t); probe.header.Type != wire.Ping { // sent to learn whether stamps were accepted
			t.Errorf("%+v", probe.header)
		}
		p.server.expect(t, wire.Update, 7, 0)
		if n := p.g.cfg.Stats.Snapshot().Errors["budget"]; n != 0 {
			t.Errorf("%d requests are counted", n)
		}
		kept.budget.Release(taken)
		time.Sleep(time.Hour) // until the goroutine that checks for stalls has ended
	})
}
