package grpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
)

// errSilent is why a connection was given up.
var errSilent = errors.New("the upstream does not answer pings")

// hop is a connection to the upstream, shared by many calls.
type hop struct {
	h2.Pooled
	knows   *knowledge
	inquiry *inquiry

	spoke  *atomic.Bool // a server behind this pool has answered in HTTP/2 without TLS; nil: there is TLS
	heard  atomic.Int64 // headers and pieces of messages that calls got
	silent atomic.Bool  // it was given up, because the server is gone without a word

	carried bool                  // over a link
	lanes   *lanes.Ends           // of that; nil: it has none
	noLink  atomic.Pointer[error] // why it is none though it should be; nil once it has been answered
}

// ping reports whether the server answers a ping in time. What else it sends meanwhile does as
// well: the answer may be behind much of it. So does the connection's end, which calls hear of themselves.
func (h *hop) ping(in time.Duration) bool {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), in)
		err := h.Conn.Ping(ctx)
		late := ctx.Err() != nil
		cancel()
		if err == nil || !late {
			return true
		}
		if h.Conn.Silence() >= in {
			return false
		}
	}
}

// giveUp ends the calls on a connection, with UNAVAILABLE.
func (h *hop) giveUp() {
	h.silent.Store(true)
	h.Conn.Close()
}

// explain says why a call on h failed, when the error doesn't.
func (h *hop) explain(err error) error {
	switch {
	case h.silent.Load():
		return errSilent
	case h.mayNeedTLS():
		return fmt.Errorf("%w (nothing there ever spoke HTTP/2 without TLS; with TLS it is grpcs://)", err)
	}
	return err
}

// mayNeedTLS reports whether the connection has ended without a sign that the upstream speaks HTTP/2 in clear: neither on this
// connection, whose server begins with its settings, nor on others. One that has died, or a balancer before it, must not be taken for
// one with TLS.
func (h *hop) mayNeedTLS() bool {
	return h.spoke != nil && !h.spoke.Load() && !h.carried && !h.Conn.Spoke() && h.Conn.Ended()
}

// unusable reports whether a connection turned out to be of no use before anything of the
// call was sent.
func unusable(err error) bool { return errors.Is(err, h2.ErrUnusable) }

// pool holds connections to the upstream.
type pool struct {
	*h2.Pool[*hop]
	dialer *dialer
}

// newPool makes a pool of at most so many connections, for all clients or for one.
func newPool(d *dialer, most int, one bool) *pool {
	return &pool{h2.NewPool(h2.PoolConfig[*hop]{Connect: d.connect, Most: most, Linger: pairTimeout, OneClient: one, Apart: d.setApart, Faults: d.speaks.Faults}), d}
}

// setApart counts and logs that a client's connection gets connections to the upstream of its own.
func (d *dialer) setApart(client string) {
	d.up.Stats.Error("resets")
	d.log.Warn("a client cancels many calls, so its calls get connections to the upstream of their own: servers end connections with many resets",
		"client", client, "upstream", d.up.String())
}

// replace keeps new calls from a connection that has been answered and could be a link. Those that it
// has go on.
func (p *pool) replace(h *hop) {
	if p.dialer.shouldBeLink(h) {
		p.Retire(h)
	}
}

// pings say when a server that says nothing is asked whether it is there. The
// system notices a dead peer after a quarter of an hour only, if something is under way to it.
//
// Servers punish pings: grpc-go's takes two between one header or message of its own and the
// next, and then one in five minutes; at the next it ends the connection. Without calls it
// wants none, and nobody waits for anything then.
type pings struct {
	every  time.Duration // between two looks at a connection
	silent time.Duration // in which nothing was heard
	answer time.Duration // that the answer to a ping may take
	apart  time.Duration // between two pings when there were freePings already
}

const freePings = 2

var defaultPings = pings{every: 5 * time.Second, silent: 20 * time.Second, answer: 15 * time.Second, apart: 6 * time.Minute}

// watch pings the server when it is silent though calls wait, and closes the connection when
// there is no answer. It lives as long as the connection.
func (p pings) watch(h *hop) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	var sent int
	var heard int64
	var last time.Time
	for {
		select {
		case <-h.Conn.Done():
			return
		case <-tick.C:
		}
		if now := h.heard.Load(); now != heard {
			heard, sent = now, 0
		}
		if h.Conn.Silence() < p.silent || h.Active() == 0 || sent >= freePings && time.Since(last) < p.apart {
			continue
		}
		sent, last = sent+1, time.Now()
		if !h.ping(p.answer) {
			h.giveUp()
			return
		}
	}
}
