package link

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// history limits the memory that the histories of all links of an endpoint take, in both directions. A stream that gets
// none does without: its pieces are compressed alone, and nothing waits.
//
// What a hello grants is reserved as long as its link lasts, and most links rarely use it. So only a part of the limit
// can be reserved; other links get their first window with their first piece.
//
// As with a budget (see package memory), a client gets at most three times as much as stays free, so that something is
// left for the next one. A client is an address: at a far gateway that of the near gateway.
type history struct {
	limit int64

	mu       sync.Mutex
	used     int64
	most     int64
	promised int64     // reserved for links, whether they use it or not
	unused   int64     // of promised
	wanted   time.Time // when memory was last asked for in vain
	clients  map[string]*clientHistory
}

// clientHistory is the memory that the links of one client take.
type clientHistory struct {
	of     *history
	name   string
	links  int       // guarded by of.mu, as all below
	used   int64     // part of of.used
	wanted time.Time // when it was last refused more because it has so much
}

const (
	promisedPart = 8 // the part of the limit that hellos may grant is an eighth
	clientParts  = 3 // what a client may take, as a multiple of what is then free
)

// client returns the memory of a client, for one more link of it. The link calls leave when it ends.
func (h *history) client(name string) *clientHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[name]
	if c == nil {
		c = &clientHistory{of: h, name: name}
		if h.clients == nil {
			h.clients = map[string]*clientHistory{}
		}
		h.clients[name] = c
	}
	c.links++
	return c
}

// leave removes one link from the client's count. What the link still holds may be given back later.
func (c *clientHistory) leave() {
	c.of.mu.Lock()
	c.links--
	c.add(0)
	c.of.mu.Unlock()
}

// grab takes n bytes if they are free.
func (c *clientHistory) grab(n int64) bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.take(n, c.of.limit, 0)
}

// lend takes n bytes for what a link's owner remembers; lent is what the link has so far. A quarter of the limit is
// kept, so that links find memory for their first windows. Of the rest a link gets at most as much as it leaves free.
func (c *clientHistory) lend(lent *int64, n int64) bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	limit := c.of.limit / 4 * 3
	if !c.take(n, limit, n+*lent) {
		return false
	}
	*lent += n
	return true
}

// take takes n of limit bytes, if at least spare remain free. of.mu must be held.
func (c *clientHistory) take(n, limit, spare int64) bool {
	h := c.of
	free := limit - h.used - h.unused
	if n+spare <= free && n <= memory.Room(clientParts, free, c.used) {
		c.add(n)
		return true
	}
	if c.used > free {
		c.wanted = time.Now()
	} else {
		h.wanted = time.Now()
	}
	return false
}

// promise reserves n bytes for a connection, if so many can be reserved.
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

// redeem takes n bytes that were reserved.
func (c *clientHistory) redeem(n int64) {
	c.of.mu.Lock()
	c.of.unused -= n
	c.add(n)
	c.of.mu.Unlock()
}

// restore gives held bytes back, of which n are reserved again.
func (c *clientHistory) restore(held, n int64) {
	c.of.mu.Lock()
	c.add(-held)
	c.of.unused += n
	c.of.mu.Unlock()
}

// withdraw ends the reservation of n unused bytes.
func (h *history) withdraw(n int64) {
	h.mu.Lock()
	h.promised -= n
	h.unused -= n
	h.mu.Unlock()
}

// add adds n bytes, which may be negative, and forgets a client without links and bytes. of.mu must be held.
func (c *clientHistory) add(n int64) {
	c.used += n
	c.of.used += n
	c.of.most = max(c.of.most, c.of.used)
	if c.links == 0 && c.used == 0 {
		delete(c.of.clients, c.name)
	}
}

// free gives n bytes back.
func (c *clientHistory) free(n int64) {
	c.of.mu.Lock()
	c.add(-n)
	c.of.mu.Unlock()
}

// giveBack undoes lend.
func (c *clientHistory) giveBack(lent *int64, n int64) {
	c.of.mu.Lock()
	*lent -= n
	c.add(-n)
	c.of.mu.Unlock()
}

// tight reports whether the client's idle histories should be dropped soon: little memory is left, or more was asked
// for in vain a moment ago, by this client because it has so much, or by another one.
func (c *clientHistory) tight() bool {
	h := c.of
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used+h.unused > h.limit/8*7 || time.Since(h.wanted) < 2*tightIdle || time.Since(c.wanted) < 2*tightIdle
}

func (h *history) state() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return State{Limit: h.limit, Used: h.used, Most: h.most, Promised: h.promised, Unused: h.unused}
}

// firstWindow is log2 of the window that a hello or a first grant has. Windows grow with the bytes received.
const firstWindow = 17

// nextWindow returns the window to grant after window: the first one, or one eight times as large, up to most.
func nextWindow(window byte, most int) byte {
	if window == 0 {
		return byte(min(firstWindow, most))
	}
	return byte(min(int(window)+3, most))
}

// Growth says when a stream's window grows. A new window begins with an empty history.
type Growth struct {
	fills uint // log2 of how often the window must have been filled
	turn  uint // number of pieces between two checks
}

// Links that clients share last for long and carry more, so their windows grow sooner.
var (
	ClientGrowth = Growth{fills: 2, turn: 64}
	SharedGrowth = Growth{fills: 0, turn: 2}
)

// worth returns the number of bytes that a stream must carry before its window grows: for one without a window, which
// gets it with the first compressed piece, 1.
func (g Growth) worth(window byte) int64 {
	if window == 0 {
		return 1
	}
	return 1 << (uint(window) + g.fills)
}

// tightIdle is the time without use after which a history is dropped when memory is short.
const tightIdle = 5 * time.Second
