package http

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
)

var errNoHistory = errors.New("no memory is free for a history (link.memory)")

// histories makes the histories of connections between gateways, within link.memory.
type histories struct {
	coders bodies.Coders
	memory *gateway.Budget
	level  int
	window int
}

func newHistories(c *Config) *histories {
	return &histories{
		coders: bodies.Coders{Engine: c.Engine, Codecs: c.Codecs}, memory: gateway.NewBudget(c.LinkMemory),
		level: c.LinkLevel, window: min(c.LinkWindow, mostWindow),
	}
}

// history is what both ends of such a connection remember: of bodies that we send, and of those that come.
type history struct {
	writer *bodies.Writer
	reader *bodies.Reader
	window int
	free   func()
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
	return &history{writer: w, reader: r, window: window, free: func() { h.memory.Release(cost) }}, nil
}

func (h *history) close() {
	h.writer.Close()
	h.reader.Close()
	h.free()
}
