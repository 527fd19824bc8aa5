package grpccodec

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

const long = time.Hour

func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		turns.patient = long
		a, b := turns.take(), turns.take()
		got := make(chan *turn)
		go func() { got <- turns.take() }()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("a third turn of two")
		default:
		}
		turns.give(b)
		if c := <-got; c != b {
			t.Error("another turn than the one given back")
		}
		turns.give(a)
		turns.give(nil)
		if n := turns.inUse(); n != 1 {
			t.Errorf("%d are out", n)
		}
	})
}

func TestALostTurnComesBack(t *testing.T) {
	turns := newTurns(1)
	turns.patient = long
	for range 3 { // it can be lost again
		turns.take()
		for turns.inUse() > 0 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}
}

// When all turns are lost nothing allocates any more, so that the collector does not run by itself.
func TestWaitersFindLostTurns(t *testing.T) {
	turns := newTurns(1)
	turns.patient = 5 * time.Millisecond
	turns.take()
	turns.take()       // continues without one, after a while
	for range 12_000 { // a minute
		if turns.inUse() == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("the turn is still lost")
}

// A goroutine that holds all turns waits for one that waits for a turn.
func TestNobodyWaitsForEver(t *testing.T) {
	turns := newTurns(1)
	turns.patient = 5 * time.Millisecond
	held := turns.take()
	without := make(chan *turn)
	for range 3 {
		go func() { without <- turns.take() }()
	}
	for range 3 {
		if turn := <-without; turn != nil {
			t.Error("a turn that was not returned")
		}
	}
	turns.give(held)
	if turn := turns.take(); turn != held {
		t.Error("the turn is gone")
	}
}

func TestForgottenSetsAreFreed(t *testing.T) {
	freed := make(chan bool, 1)
	func() {
		set := NewSet(Options{})
		runtime.AddCleanup(set.encoding, func(int) { freed <- true }, 0)
	}()
	for {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestIdleStatesAreDroppedWhenNobodyNeedsThem(t *testing.T) {
	p := newIdle[int](3)
	p.every = long // looks are called here
	for i := range 5 {
		p.put(i)
	}
	if len(p.states) != 3 {
		t.Fatalf("%d states, of 3 at most", len(p.states))
	}
	p.look() // the first look only begins to count
	if s, _ := p.take(); s != 2 {
		t.Errorf("%d is not the one used last", s)
	}
	p.put(2)
	p.look()
	if len(p.states) != 1 || p.states[0] != 2 {
		t.Errorf("%v is left, only one was needed", p.states)
	}
	p.look()
	if len(p.states) != 0 || p.armed {
		t.Errorf("%v is left", p.states)
	}
	if _, ok := p.take(); ok {
		t.Error("a state out of nothing")
	}
}
