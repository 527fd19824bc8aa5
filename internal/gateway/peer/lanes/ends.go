package lanes

import (
	"runtime"
	"sync/atomic"
)

// Shared holds the state common to the lanes of all links of a gateway.
type Shared struct {
	Tally Tally
	turns chan struct{} // limits the messages that are compressed or decompressed at a time
}

// Tally counts messages and sessions, for metrics.
type Tally struct {
	Sealed, Opened  atomic.Uint64 // compressed and decompressed in lanes
	Alone           atomic.Uint64 // sent without a lane, because none was free
	Misfits         atomic.Uint64 // sent without a lane, because the lane has too little room
	Begun           atomic.Uint64 // sessions
	Refused, Broken atomic.Uint64 // received out of order, and damaged
	Held            atomic.Int64  // memory in bytes
}

// NewShared returns the state common to the lanes of one gateway.
func NewShared() *Shared { return &Shared{turns: make(chan struct{}, runtime.GOMAXPROCS(0))} }

// turn waits until a message may be compressed or decompressed, and returns the function to call afterwards. The holder
// must not block, so that all get a turn. A session may exceed its lane's room while it has a turn, so the number of
// turns limits that memory.
func (s *Shared) turn() (end func()) {
	s.turns <- struct{}{}
	return func() { <-s.turns }
}

// Ends are the lanes of one end of a link. They last as long as the link. Unless documented otherwise, their methods,
// and those of the values that they return, may be called from any goroutine.
type Ends struct {
	Writers Writers
	Readers Readers
}

// New returns the lanes of one end of a link, which take their memory from m.
func New(m Memory, s *Shared) *Ends {
	e := &Ends{}
	ledger := &ledger{memory: m, held: &s.Tally.Held}
	e.Writers.init(ledger, s)
	e.Readers.init(ledger, s)
	return e
}

// Close drops all sessions when the link has ended. Calls that still use lanes get errors, or compress without a lane.
func (e *Ends) Close() {
	if e == nil {
		return
	}
	e.Writers.close()
	e.Readers.close()
}
