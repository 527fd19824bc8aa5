package grpc

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// spreadStreams is how many calls share a connection before another is opened: beyond that
// its single reader and writer become what calls wait for.
const spreadStreams = 50

var errClosed = errors.New("the gateway is closed")

// pool holds connections to the upstream. A call takes the one with the fewest calls.
type pool struct {
	dialer *dialer
	max    int             // connections
	alive  context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex
	hops    []*hop
	dialing *dial // nil: none is being opened
}

// dial is the opening of a connection that calls may wait for.
type dial struct {
	done chan struct{}
	err  error // valid after done
}

// newPool makes a pool of at most so many connections.
func newPool(d *dialer, most int) *pool {
	p := &pool{dialer: d, max: most}
	p.alive, p.cancel = context.WithCancel(context.Background())
	return p
}

// take returns a connection for one call, which gives it back with release. It waits only
// while there is none at all.
func (p *pool) take(ctx context.Context) (*hop, error) {
	for {
		h, d, err := p.choose()
		if h != nil || err != nil {
			return h, err
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose returns the least busy connection, or the dial to wait for.
func (p *pool) choose() (*hop, *dial, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive.Err() != nil {
		return nil, nil, errClosed
	}
	best := p.leastBusy()
	if (best == nil || best.active.Load() >= spreadStreams && len(p.hops) < p.max) && p.dialing == nil {
		p.dialing = &dial{done: make(chan struct{})}
		go p.open(p.dialing)
	}
	if best == nil {
		return nil, p.dialing, nil
	}
	best.active.Add(1)
	return best, nil, nil
}

// leastBusy retires connections that take no calls any more; those in flight go on. p.mu is held.
func (p *pool) leastBusy() *hop {
	var best *hop
	kept := p.hops[:0]
	for _, h := range p.hops {
		if !h.conn.CanTakeNewRequest() {
			h.retired = true
			if h.active.Load() == 0 {
				go h.shut(pairTimeout)
			}
			continue
		}
		kept = append(kept, h)
		if best == nil || h.active.Load() < best.active.Load() {
			best = h
		}
	}
	clear(p.hops[len(kept):])
	p.hops = kept
	return best
}

// drop keeps a connection from new calls that has just refused one, unless it refused no
// more than a stream. It is closed when its last call has ended.
func (p *pool) drop(h *hop, err error) {
	if unusable(err) {
		p.retire(h)
	}
}

// replace keeps new calls from a connection that has been answered and could be a link. Those that it
// has go on.
func (p *pool) replace(h *hop) {
	if p.dialer.shouldBeLink(h) {
		p.retire(h)
	}
}

// retire keeps a connection from new calls. It is a call of h's that finds a reason to.
func (p *pool) retire(h *hop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hops = slices.DeleteFunc(p.hops, func(other *hop) bool { return other == h })
	h.conn.SetDoNotReuse()
	h.retired = true
}

// release ends a call's use of a connection. The transport closes one that is not to be used again
// with its last stream, but that may have ended before anybody said so.
func (p *pool) release(h *hop) {
	p.mu.Lock()
	last := h.active.Add(-1) == 0 && h.retired
	p.mu.Unlock()
	if last {
		go h.shut(pairTimeout)
	}
}

// open makes a connection and adds it. It runs in a goroutine of its own, because calls
// come and go while it lasts.
func (p *pool) open(d *dial) {
	h, err := p.dialer.connect(p.alive)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.alive.Err() != nil {
		h.conn.Close()
		err = errClosed
	}
	if err == nil {
		p.hops = append(p.hops, h)
	}
	d.err = err
	p.dialing = nil
	close(d.done)
}

// close ends all connections and what is being dialed.
func (p *pool) close() {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hops {
		h.conn.Close()
	}
	p.hops = nil
}
