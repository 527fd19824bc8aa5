package link

import (
	"sync"
	"time"
)

// history bounds the bytes that all streams of an endpoint remember, both ways. A stream that gets none
// goes without: pieces that stand for themselves are larger, and nothing waits.
//
// What a hello promises to a connection is set aside for as long as that lasts, and most connections
// make no use of it for most of the time. So only a part can be promised; others get their first
// window with their first piece.
type history struct {
	limit int64

	mu       sync.Mutex
	used     int64
	most     int64
	promised int64     // to connections that there are
	unused   int64     // of promised
	wanted   time.Time // when memory was asked for last that there was not
}

// promisedPart is the part of the limit that hellos may promise.
const promisedPart = 8

// grab takes n bytes if they are free.
func (h *history) grab(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used+h.unused+n > h.limit {
		h.wanted = time.Now()
		return false
	}
	h.add(n)
	return true
}

// promise sets n bytes aside for a connection, if there are so many to promise.
func (h *history) promise(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.promised+n > h.limit/promisedPart || h.used+h.unused+n > h.limit {
		return false
	}
	h.promised += n
	h.unused += n
	return true
}

// redeem takes n bytes that were promised.
func (h *history) redeem(n int64) {
	h.mu.Lock()
	h.unused -= n
	h.add(n)
	h.mu.Unlock()
}

// restore gives held bytes back, of which n were promised and are so again.
func (h *history) restore(held, n int64) {
	h.mu.Lock()
	h.used -= held
	h.unused += n
	h.mu.Unlock()
}

// withdraw ends a promise that is not made use of.
func (h *history) withdraw(n int64) {
	h.mu.Lock()
	h.promised -= n
	h.unused -= n
	h.mu.Unlock()
}

func (h *history) add(n int64) {
	h.used += n
	h.most = max(h.most, h.used)
}

func (h *history) free(n int64) {
	h.mu.Lock()
	h.used -= n
	h.mu.Unlock()
}

// lend takes n bytes for what a link's owner remembers; lent has what the link has so far. A quarter of the limit is kept, so
// that links find memory for their first windows. Of the rest a link has at most as much as it leaves free: so the first
// links can't keep the next ones from all of it, whatever they carry.
func (h *history) lend(lent *int64, n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	free := h.limit/4*3 - h.used - h.unused
	if n > (free-*lent)/2 {
		h.wanted = time.Now()
		return false
	}
	*lent += n
	h.add(n)
	return true
}

// giveBack undoes lend.
func (h *history) giveBack(lent *int64, n int64) {
	h.mu.Lock()
	*lent -= n
	h.used -= n
	h.mu.Unlock()
}

// tight reports whether little is left, or less than was asked for a moment ago: idle histories are to yield.
func (h *history) tight() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used+h.unused > h.limit/8*7 || !h.wanted.IsZero() && time.Since(h.wanted) < 2*tightIdle
}

func (h *history) state() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return State{Limit: h.limit, Used: h.used, Most: h.most, Promised: h.promised, Unused: h.unused}
}

// firstWindow is the window of a connection from its first piece on. It grows with the
// bytes that come.
const firstWindow = 17

// nextWindow returns the next window of a stream, eight times as large.
func nextWindow(window byte, most int) byte {
	if window == 0 {
		return byte(min(firstWindow, most))
	}
	return byte(min(int(window)+3, most))
}

// Growth says when a stream's window is made larger. What it has learnt is lost then.
type Growth struct {
	fills uint // log2 of how many times it has been filled
	turn  uint // pieces between two looks
}

// Links that many share are kept for long, and what goes over them comes from fewer bytes than it stands for.
var (
	ClientGrowth = Growth{fills: 2, turn: 64}
	SharedGrowth = Growth{fills: 0, turn: 2}
)

// worth is the number of bytes that a stream carries first. One without a window gets it with the first compressed piece.
func (g Growth) worth(window byte) int64 {
	if window == 0 {
		return 1
	}
	return 1 << (uint(window) + g.fills)
}

// tightIdle is after how long a history is forgotten when memory is short.
const tightIdle = 5 * time.Second
