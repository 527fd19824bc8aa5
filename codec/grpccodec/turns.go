package grpccodec

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"
)

// turns limits the states of one kind in use. Encoders and decoders have separate turns, so that a goroutine
// that holds an encoder may wait for a decoder.
//
// A turn can get lost: grpc-go before 1.82 closed no reader, and a program may drop one. A lost turn is
// replaced when the garbage collector finds it, at no cost for those that are returned. And goroutines may
// wait for each other while all turns are taken: if none is returned for a while, one waiter after the other
// continues without a turn, and the collector looks for lost ones.
type turns struct {
	free    chan *turn
	moves   atomic.Uint64 // turns given back, and calls let through without one
	patient time.Duration
}

// turn is the right to use one state. It belongs to one handle at a time. Its pointer is weak: otherwise the
// idle turns here, which have finalizers, would keep alive the object that they belong to.
type turn struct {
	of weak.Pointer[turns]
}

// patience is the time without a returned turn after which a call continues without one: much longer than any
// message takes.
const patience = 2 * time.Second

func newTurns(n int) *turns {
	t := &turns{free: make(chan *turn, n), patient: patience}
	for range n {
		t.free <- t.add()
	}
	return t
}

// add returns a turn whose loss is detected.
func (t *turns) add() *turn {
	turn := &turn{of: weak.Make(t)}
	runtime.SetFinalizer(turn, lost)
	return turn
}

// lost is the finalizer of a turn that was not returned. It puts the turn itself back: a finalizer may
// resurrect its object.
func lost(t *turn) {
	of := t.of.Value()
	if of == nil {
		return
	}
	runtime.SetFinalizer(t, lost)
	of.give(t)
}

// take waits for a turn; nil means that the caller continues without one.
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
				go runtime.GC() // finds lost turns; it runs by itself only if much is allocated
				return nil
			}
			timer.Reset(t.patient)
		}
	}
}

// give returns a turn to the set. It may be nil.
func (t *turns) give(turn *turn) {
	if turn == nil {
		return
	}
	t.moves.Add(1)
	t.free <- turn // has room for all of them
}

// inUse returns the number of turns taken.
func (t *turns) inUse() int { return cap(t.free) - len(t.free) }
