package http

import (
	"errors"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
)

var errNoHistory = errors.New("no memory is free for a history (link.memory)")

// histories makes the histories of connections between gateways, within link.memory.
type histories struct {
	coders bodies.Coders
	memory *gateway.Budget
	limit  int64 // of memory
	level  int
	window int
}

func newHistories(c *Config) *histories {
	return &histories{
		coders: bodies.Coders{Engine: c.Engine, Codecs: c.Codecs}, memory: gateway.NewBudget(c.LinkMemory), limit: c.LinkMemory,
		level: c.LinkLevel, window: min(c.LinkWindow, mostWindow),
	}
}

// history is what both ends of such a connection remember: of bodies that we send, and of those that come.
type history struct {
	writer *bodies.Writer
	reader *bodies.Reader
	window int

	memory *gateway.Budget
	limit  int64 // of memory
	mu     sync.Mutex
	cost   int64 // bytes of memory
	fixed  int64 // of them, those of the streams
	full   bool  // there was no memory for what the reader remembers: no more is to come
}

// settle has memory follow what sessions of cinch-proto remember. Where there is none the writer's forgets, and the connection
// is to end if the reader's is too large.
func (h *history) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grow() {
		return
	}
	h.writer.Forget()
	if !h.grow() {
		h.full = true
	}
}

// grow takes what is remembered now, or gives back what is no longer. h.mu is held.
func (h *history) grow() bool {
	more := h.fixed + int64(h.writer.Columns()+h.reader.Columns()) - h.cost
	switch {
	case more <= 0:
		h.memory.Release(-more)
	case more > h.room() || !h.memory.TryAcquire(more):
		return false
	}
	h.cost += more
	return true
}

// room returns how many more bytes cinch-proto may remember: a connection has at most as much for it as it leaves free for others.
// h.mu is held.
func (h *history) room() int64 { return (h.limit - h.memory.InUse() - (h.cost - h.fixed)) / 2 }

// isFull reports whether the connection is to end.
func (h *history) isFull() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.full
}

// take gets memory for histories, of the wanted window or the largest smaller one that there is memory for. It returns how
// much it takes.
func (h *histories) take(window int) (int, int64, error) {
	for window = min(window, h.window); window >= leastWindow; window-- {
		cost := h.coders.Bytes(h.level, window)
		if h.memory.TryAcquire(cost) {
			return window, cost, nil
		}
	}
	return 0, 0, errNoHistory
}

// open begins histories for which memory was taken, and gives that back when it can't.
func (h *histories) open(window int, cost int64) (*history, error) {
	w, err := h.coders.NewWriter(h.level, window)
	if err != nil {
		h.memory.Release(cost)
		return nil, err
	}
	r, err := h.coders.NewReader(window)
	if err != nil {
		w.Close()
		h.memory.Release(cost)
		return nil, err
	}
	return &history{writer: w, reader: r, window: window, memory: h.memory, limit: h.limit, cost: cost, fixed: cost}, nil
}

func (h *history) close() {
	h.writer.Close()
	h.reader.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory.Release(h.cost)
	h.cost = 0
}
