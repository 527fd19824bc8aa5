package grpccodec

import (
	"sync"
	"time"
)

// idle keeps states that are not in use, with the one used last on top. Those not needed for a while are
// dropped, so that a burst leaves nothing behind. The turns limit their number: only a caller that holds a
// turn puts a state back.
type idle[S any] struct {
	max   int
	every time.Duration // interval of look

	mu     sync.Mutex
	states []S
	least  int  // fewest states here since the last look: these were not needed
	armed  bool // look is scheduled
}

// idleTime is the interval of look: an unused state is dropped after one to two of them.
const idleTime = 15 * time.Second

func newIdle[S any](most int) *idle[S] { return &idle[S]{max: most, every: idleTime} }

func (p *idle[S]) take() (state S, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.states) - 1
	if last < 0 {
		return state, false
	}
	state = p.states[last]
	clear(p.states[last:])
	p.states = p.states[:last]
	p.least = min(p.least, last)
	return state, true
}

func (p *idle[S]) put(state S) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.states) >= p.max {
		return
	}
	p.states = append(p.states, state)
	if !p.armed {
		p.armed = true
		p.least = 0
		time.AfterFunc(p.every, p.look)
	}
}

// look drops the states that were not needed since the last look, the oldest first.
func (p *idle[S]) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := copy(p.states, p.states[p.least:])
	clear(p.states[kept:])
	p.states = p.states[:kept]
	p.least = kept
	if kept == 0 {
		p.armed = false
		return
	}
	time.AfterFunc(p.every, p.look)
}
