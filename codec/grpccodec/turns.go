package grpccodec

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"
)

// turns bounds the states of one kind in use. Encoders and decoders have
// turns of their own, so that a goroutine which holds an encoder may wait for
// a decoder.
//
// A turn can get lost: grpc-go before 1.82 closed no reader, and a program may
// drop one. A lost turn is replaced when the garbage collector finds it, at no
// cost for those that come back. And goroutines may wait for each other while
// all turns are out: when none has come back for a while, one waiter after the
// other goes ahead without, and the collector looks for lost ones.
type turns struct {
	free    chan *turn
	moves   atomic.Uint64 // turns given back, and calls let through without one
	patient time.Duration
}

// turn is the right to use one state. It belongs to one handle at a time. Its
// pointer is weak, or turns that lie here and have finalizers would keep alive
// what they belong to.
type turn struct {
	of weak.Pointer[turns]
}

// patience is how long no turn has to come back before a call goes ahead
// without: much longer than any one message takes.
const patience = 2 * time.Second

func newTurns(n int) *turns {
	t := &turns{free: make(chan *turn, n), patient: patience}
	for range n {
		t.free <- t.add()
	}
	return t
}

// add returns a turn whose loss is noticed.
func (t *turns) add() *turn {
	turn := &turn{of: weak.Make(t)}
	runtime.SetFinalizer(turn, lost)
	return turn
}

// lost runs when a turn that was not given back is garbage. The turn itself
// goes back: a finalizer may bring its object to life again.
func lost(t *turn) {
	of := t.of.Value()
	if of == nil {
		return
	}
	runtime.SetFinalizer(t, lost)
	of.give(t)
}

// take waits for a turn; nil means that the caller goes ahead without.
func (t *turns) take() *turn {
	select {
	case turn := <-t.free:
		return turn
	default:
		return t.wait()
	}
}

func (t *turns) wait() *turn {
	timer := time.NewTimer(t.patient)
	defer timer.Stop()
	for {
		seen := t.moves.Load()
		select {
		case turn := <-t.free:
			return turn
		case <-timer.C:
			if t.moves.CompareAndSwap(seen, seen+1) {
				go runtime.GC() // it finds lost turns, and runs by itself only where much is allocated
				return nil
			}
			timer.Reset(t.patient)
		}
	}
}

// give returns a turn, which may be nil.
func (t *turns) give(turn *turn) {
	if turn == nil {
		return
	}
	t.moves.Add(1)
	t.free <- turn // has room for all there are
}

// inUse says how many are out.
func (t *turns) inUse() int { return cap(t.free) - len(t.free) }
