package lanes

import (
	"runtime"
	"sync/atomic"
)

// Shared holds the state common to the lanes of all links of a gateway.
type Shared struct {
	Tally Tally
	turns chan struct{} // as many as messages may be sealed or opened at a time
}

// Tally counts messages, and sessions that were begun.
type Tally struct {
	Sealed, Opened  atomic.Uint64 // in lanes
	Alone           atomic.Uint64 // sent without, as no lane was free
	Misfits         atomic.Uint64 // likewise, as the lane would have remembered too much
	Begun           atomic.Uint64
	Refused, Broken atomic.Uint64 // that came out of order, and that were damaged
	Held            atomic.Int64  // bytes of memory
}

// NewShared returns what one gateway's lanes have in common.
func NewShared() *Shared { return &Shared{turns: make(chan struct{}, runtime.GOMAXPROCS(0))} }

// turn waits until a message may be sealed or opened, and returns what ends that. The holder of a turn computes and waits for
// nothing, its lane neither, so that all get one; and no more than so many messages exceed what their lanes may remember, for as long.
func (s *Shared) turn() (end func()) {
	s.turns <- struct{}{}
	return func() { <-s.turns }
}

// Ends are the lanes of one link at one of its ends. They live as long as the link, and all methods of theirs and of what they
// return are safe for concurrent use, if nothing else is said.
type Ends struct {
	Writers Writers
	Readers Readers
}

// New returns the ends of a link whose memory is given.
func New(m Memory, s *Shared) *Ends {
	e := &Ends{}
	ledger := &ledger{memory: m, held: &s.Tally.Held}
	e.Writers.init(ledger, s)
	e.Readers.init(ledger, s)
	return e
}

// Close forgets everything, when the link is over. Calls that still use lanes get errors, or seal nothing any more.
func (e *Ends) Close() {
	if e == nil {
		return
	}
	e.Writers.close()
	e.Readers.close()
}
