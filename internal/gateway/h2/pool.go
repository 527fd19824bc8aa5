package h2

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// SpreadStreams is how many requests share a connection before another is opened: beyond that
// its single reader and writer become what requests wait for.
const SpreadStreams = 50

var errPoolClosed = errors.New("the gateway is closed")

// Pooled is what a pool knows of a connection. A type of connections embeds it.
type Pooled struct {
	Conn *ClientConn

	active  atomic.Int64 // requests; changed under the pool's mu
	retired bool         // takes no more, and is closed behind the last; this and the rest are guarded by the pool's mu
	since   time.Time    // it has none
	timer   *time.Timer  // looks whether it has been so for too long; nil: none has ever ended
	looks   bool         // the timer runs
}

func (p *Pooled) pooled() *Pooled { return p }

// Active is how many requests use the connection.
func (p *Pooled) Active() int64 { return p.active.Load() }

// Hop is a type of connections, a pointer to what embeds Pooled.
type Hop interface {
	comparable
	pooled() *Pooled
}

// PoolConfig is what a Pool is made of.
type PoolConfig[H Hop] struct {
	Connect func(alive context.Context) (H, error) // alive ends with the pool
	Most    int                                    // connections
	Idle    time.Duration                          // without requests, until a connection is closed; 0: it stays
	Linger  time.Duration                          // that what uses a connection beside requests may take when it is closed
}

// Pool holds connections to a server. A request takes the one with the fewest requests.
type Pool[H Hop] struct {
	PoolConfig[H]
	alive  context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	hops    []H
	dialing *dialing[H] // nil: none is being opened
}

// dialing is the opening of a connection that requests may wait for.
type dialing[H Hop] struct {
	done chan struct{}
	hop  H // or err; valid after done
	err  error
	room chan struct{} // holds something once others have left room meanwhile, for one that waits
}

// left lets one that waits look for room. It may find that somebody else has been faster.
func (d *dialing[H]) left() {
	if d == nil {
		return
	}
	select {
	case d.room <- struct{}{}:
	default:
	}
}

// NewPool makes an empty pool.
func NewPool[H Hop](cfg PoolConfig[H]) *Pool[H] {
	p := &Pool[H]{PoolConfig: cfg}
	p.alive, p.cancel = context.WithCancel(context.Background())
	return p
}

// Take returns a connection for one request, which gives it back with Release. It waits only while each has all the requests that
// its server takes, and another one is being opened: that may take longer than those requests.
func (p *Pool[H]) Take(ctx context.Context) (H, error) {
	var none H
	var opened *dialing[H] // that it has waited for
	for {
		h, d, err := p.choose(opened)
		if d == nil {
			return h, err
		}
		select {
		case <-d.done:
			if d.err != nil {
				return p.takeAny(d.err)
			}
			opened = d
		case <-d.room:
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// choose returns the least busy connection, or what to wait for. Where there is none though one was opened for the request, that has
// ended at once: the request gets it, and hears so, or it would have one opened after the other.
func (p *Pool[H]) choose(opened *dialing[H]) (H, *dialing[H], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none H
	if p.alive.Err() != nil {
		return none, nil, errPoolClosed
	}
	best, room := p.leastBusy()
	if best == none && opened != nil {
		best, room = opened.hop, 1
	}
	if (best == none || room <= 0 || best.pooled().active.Load() >= SpreadStreams) && len(p.hops) < p.Most && p.dialing == nil {
		p.dialing = &dialing[H]{done: make(chan struct{}), room: make(chan struct{}, 1)}
		go p.open(p.dialing)
	}
	if best == none || room <= 0 && p.dialing != nil {
		return none, p.dialing, nil
	}
	best.pooled().active.Add(1)
	if room > 1 { // more have left it than one was told of
		p.dialing.left()
	}
	return best, nil, nil
}

// takeAny returns a connection though its request may have to wait for others to end, or the error for which there is none.
func (p *Pool[H]) takeAny(err error) (H, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none H
	best, _ := p.leastBusy()
	if best == none || p.alive.Err() != nil {
		return none, err
	}
	best.pooled().active.Add(1)
	return best, nil
}

// leastBusy retires connections that take no requests any more; those in flight go on. room is how many more the best one's server
// takes now. p.mu is held.
func (p *Pool[H]) leastBusy() (best H, room int64) {
	var none H
	kept := p.hops[:0]
	for _, h := range p.hops {
		u := h.pooled()
		most, usable := u.Conn.takes()
		if !usable {
			p.leave(u)
			continue
		}
		kept = append(kept, h)
		if active := u.active.Load(); best == none || active < best.pooled().active.Load() {
			best, room = h, int64(most)-active
		}
	}
	clear(p.hops[len(kept):])
	p.hops = kept
	return best, room
}

// leave closes a connection behind its last request. p.mu is held.
func (p *Pool[H]) leave(u *Pooled) {
	u.retired = true
	if u.active.Load() == 0 {
		go u.Shut(p.Linger)
	}
}

// Retire keeps a connection from new requests. It is a request on it that finds a reason to.
func (p *Pool[H]) Retire(h H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(h)
	u := h.pooled()
	u.Conn.SetDoNotReuse()
	u.retired = true
}

func (p *Pool[H]) remove(h H) {
	p.hops = slices.DeleteFunc(p.hops, func(other H) bool { return other == h })
}

// Release ends a request's use of a connection. One that takes no more closes itself with its last stream, but that may have ended
// before anybody said so.
func (p *Pool[H]) Release(h H) {
	u := h.pooled()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing.left()
	switch {
	case u.active.Add(-1) > 0:
	case u.retired:
		go u.Shut(p.Linger)
	default:
		p.rests(h)
	}
}

// rests is for a connection that has no requests. p.mu is held.
func (p *Pool[H]) rests(h H) {
	if p.Idle <= 0 {
		return
	}
	u := h.pooled()
	u.since = time.Now()
	switch {
	case u.timer == nil:
		u.timer = time.AfterFunc(p.Idle, func() { p.expire(h) })
	case !u.looks:
		u.timer.Reset(p.Idle)
	}
	u.looks = true
}

// expire closes a connection that nobody has used for too long.
func (p *Pool[H]) expire(h H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := h.pooled()
	if u.active.Load() > 0 || u.retired {
		u.looks = false
		return
	}
	if wait := p.Idle - time.Since(u.since); wait > 0 {
		u.timer.Reset(wait)
		return
	}
	p.remove(h)
	p.leave(u)
}

// open makes a connection and adds it. It runs in a goroutine of its own, because requests
// come and go while it lasts.
func (p *Pool[H]) open(d *dialing[H]) {
	h, err := p.Connect(p.alive)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.alive.Err() != nil {
		h.pooled().Conn.Close()
		err = errPoolClosed
	}
	if err == nil {
		p.hops = append(p.hops, h)
		p.rests(h)
	}
	d.hop, d.err = h, err
	p.dialing = nil
	close(d.done)
}

// Hops are the connections that take requests.
func (p *Pool[H]) Hops() []H {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hops)
}

// Close ends all connections and what is being dialed.
func (p *Pool[H]) Close() {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hops {
		h.pooled().Conn.Close()
	}
	p.hops = nil
}

// Shut closes a connection when what uses it beside requests has ended.
func (p *Pooled) Shut(in time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), in)
	defer cancel()
	stop := context.AfterFunc(ctx, p.Conn.Close) // Shutdown waits for a server that takes no GOAWAY
	defer stop()
	_ = p.Conn.Shutdown(ctx)
	p.Conn.Close()
}
