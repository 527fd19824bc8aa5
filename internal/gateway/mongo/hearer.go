package mongo

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// hearer is what one end of a pair remembers of the frames that came over a connection. But
// for on it belongs to the pump that reads there.
type hearer struct {
	pairs   *pairs
	on      atomic.Bool // frames are agreed on
	numbers wire.Numbers
	session sessionID
	slots   [wire.PairedSlots]*codec.Dict // places on the shelf
	pinned  []*codec.Dict                 // those that the other end was told of, likewise
}

// open returns the message in a frame, in a buffer of the pool's.
func (h *hearer) open(frame []byte, p *wire.Paired) ([]byte, error) {
	h.numbers = wire.Numbers{Request: p.Header.RequestID, Answer: p.Header.ResponseTo}
	buf := wire.AppendHeader(gateway.GetBuffer(p.Header.Length), p.Header)
	if p.Stored {
		return append(buf, frame[p.Head:]...), nil
	}
	d := h.slots[p.Slot]
	if d == nil && p.Slot != 0 {
		gateway.PutBuffer(buf)
		return nil, fmt.Errorf("%w: a dictionary that was not sent", errPair)
	}
	began := time.Now()
	out, err := h.pairs.codecs.engine.Decompress(buf, frame[p.Head:], codec.Zstd, p.Header.Length-wire.HeaderLen, d)
	if err == nil {
		err = h.restore(out[wire.HeaderLen:], p.Session)
	}
	if err != nil {
		gateway.PutBuffer(buf)
		return nil, err
	}
	spent := time.Since(began)
	h.pairs.codecs.stats.Opened(codec.Zstd, len(frame), len(out), spent)
	h.pairs.codecs.link.opened(wire.BetweenGateways, len(out), spent)
	h.pairs.Messages.Opened.Add(1)
	return out, nil
}

// restore puts the session's identifier where it was taken out, and remembers it otherwise.
func (h *hearer) restore(body []byte, taken bool) error {
	id, at := findSession(body)
	switch {
	case taken && (at == 0 || id != sessionID{}):
		return fmt.Errorf("%w: no place for a session", errPair)
	case taken:
		copy(body[at:], h.session[:])
	case at > 0:
		h.session = id
	}
	return nil
}

// take puts a dictionary into its slot.
func (h *hearer) take(frame []byte, p *wire.Paired) error {
	d, err := h.pairs.shelved(frame[p.Head:], p.Known)
	if err != nil {
		return err
	}
	h.pairs.shelf.Drop(h.slots[p.Slot])
	h.slots[p.Slot] = d
	h.pairs.Dicts.Received.Add(1)
	return nil
}

// free gives the dictionaries back.
func (h *hearer) free() {
	for i, d := range h.slots {
		h.pairs.shelf.Drop(d)
		h.slots[i] = nil
	}
	for _, d := range h.pinned {
		h.pairs.shelf.Drop(d)
	}
	h.pinned = nil
}

// pin returns the dictionaries that the other end is told of. They stay until the connection
// ends, or those that are told of could be gone when they are named.
func (h *hearer) pin() []*codec.Dict {
	if h.pinned == nil {
		h.pinned = h.pairs.shelf.Latest(maxAnnounced)
	}
	return h.pinned
}
