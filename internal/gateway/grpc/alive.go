package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/net/http2"
)

// errSilent is why a connection was given up.
var errSilent = errors.New("the upstream does not answer pings")

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
func (p *pool) watch(h *hop) {
	timing := p.pings
	tick := time.NewTicker(timing.every)
	defer tick.Stop()
	var sent int
	var heard int64
	var last time.Time
	for {
		select {
		case <-h.batch.done:
			return
		case <-tick.C:
		}
		if now := h.heard.Load(); now != heard {
			heard, sent = now, 0
		}
		if h.batch.silence() < timing.silent || !p.waited(h) || sent >= freePings && time.Since(last) < timing.apart {
			continue
		}
		sent, last = sent+1, time.Now()
		if !h.answers(timing.answer) {
			p.giveUp(h)
			return
		}
	}
}

// waited reports whether calls wait for h.
func (p *pool) waited(h *hop) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.active > 0
}

// answers sends a ping. What else the server sends meanwhile does as well: the answer may be
// behind much of it.
func (h *hop) answers(in time.Duration) bool {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), in)
		err := h.conn.Ping(ctx)
		cancel()
		if err == nil {
			return true
		}
		if h.batch.silence() >= in {
			return false
		}
	}
}

// explain says why a call on h failed, when the error doesn't.
func (h *hop) explain(err error) error {
	switch {
	case h.silent.Load():
		return errSilent
	case h.mayNeedTLS() && broken(err):
		return fmt.Errorf("%w (nothing there ever spoke HTTP/2 without TLS; with TLS it is grpcs://)", err)
	}
	return err
}

// mayNeedTLS reports whether there is no sign yet that the upstream speaks HTTP/2 in clear: neither on this connection, whose
// server begins with its settings, nor on others. One that has died, or a balancer before it, must not be taken for one with TLS.
func (h *hop) mayNeedTLS() bool {
	return h.spoke != nil && !h.spoke.Load() && !h.carried && h.conn.State().MaxConcurrentStreams == 0
}

// answered takes notice of a response.
func (h *hop) answered() {
	h.heard.Add(1)
	if h.spoke != nil && !h.spoke.Load() {
		h.spoke.Store(true)
	}
}

// broken reports whether err is the connection's end and not that of one call.
func broken(err error) bool {
	var reset http2.StreamError
	return !errors.As(err, &reset) && !notSeen(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// heardBody is a response's body whose connection notes what came of it.
type heardBody struct {
	src  io.Reader
	from *hop
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if n > 0 {
		b.from.heard.Add(1)
	}
	if err != nil && err != io.EOF {
		err = b.from.explain(err)
	}
	return n, err
}

// giveUp ends the calls on a connection, with UNAVAILABLE.
func (p *pool) giveUp(h *hop) {
	h.silent.Store(true)
	_ = h.conn.Close()
}
