package http

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	mostCarriers = 8               // of one client, or of all that share them
	carrierIdle  = 5 * time.Minute // longer than the time between two scrapes
	askAgain     = 10 * time.Second
)

// farSide is the near gateway's view of the far one: whether there is one, and how to connect to it.
type farSide struct {
	cfg       *Config
	up        gateway.Upstream
	histories *histories

	mu      sync.Mutex
	seen    bool      // the last replies came from a gateway
	nextAsk time.Time // after a refusal
	muted   bool      // the log has said that there is none
	paired  bool      // it has said that there is one
}

func newFarSide(c *Config, h *histories) *farSide {
	p := &farSide{cfg: c, up: c.Upstream, histories: h}
	if p.up.TLS != nil {
		p.up.TLS = p.up.TLS.Clone()
		p.up.TLS.NextProtos = []string{"http/1.1"}
		if p.up.TLS.ClientSessionCache == nil {
			p.up.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
	}
	return p
}

// saw takes note of what a reply says of who sent it.
func (p *farSide) saw(isGateway bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = isGateway
	if !isGateway && !p.muted {
		p.muted = true
		p.cfg.Log.Warn("the upstream is no gateway with peers: bodies go without history", "upstream", p.up.String())
	}
}

// mayAsk reports whether a connection may be asked to become a carrier.
func (p *farSide) mayAsk() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen && time.Now().After(p.nextAsk)
}

// connected tells once, and again after a refusal, that there is a pair.
func (p *farSide) connected(window int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paired {
		p.paired = true
		p.cfg.Log.Info("the upstream is a gateway with peers: bodies go with history", "upstream", p.up.String(), "window_bytes", 1<<window)
	}
}

func (p *farSide) refused(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextAsk, p.paired = time.Now().Add(askAgain), false
	p.cfg.Log.Warn("no connection with history to the far gateway, bodies go without", "upstream", p.up.String(), "err", err)
}

// carriers holds the carriers of a client, or of all.
type carriers struct {
	farSide *farSide
	alive   context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex
	idle  []*carrier
	all   map[*carrier]struct{}
	asks  int // for more of them
	spare int // so many exchanges go without, and none is made for them
}

func newCarriers(p *farSide) *carriers {
	if p == nil {
		return nil
	}
	c := &carriers{farSide: p, all: map[*carrier]struct{}{}}
	c.alive, c.cancel = context.WithCancel(context.Background())
	return c
}

// take returns a carrier that is free, which its taker gives back with put or drop. When there is none it returns nil, and
// has another one made for those who come later.
func (p *carriers) take() *carrier {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		p.ask()
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	c.idle.Stop()
	return c
}

// ready reports whether a carrier is free, and has another one made when there is none.
func (p *carriers) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		p.ask()
		return false
	}
	return true
}

// ask has another one made if there may be more. p.mu is held.
func (p *carriers) ask() {
	if p.spare > 0 {
		p.spare--
		return
	}
	if len(p.all) == 0 && p.asks > 0 { // it may refuse: nobody asks twice before that is known
		return
	}
	if p.alive.Err() == nil && len(p.all)+p.asks < mostCarriers && p.farSide.mayAsk() {
		p.asks++
		go p.add()
	}
}

func (p *carriers) add() {
	defer gateway.CatchPanic(p.farSide.cfg.Log, p.farSide.cfg.Stats, nil)
	c, err := p.dial()
	p.mu.Lock()
	p.asks--
	if err == nil {
		p.all[c] = struct{}{}
	}
	p.mu.Unlock()
	switch {
	case err == nil:
		p.farSide.connected(c.window)
		p.put(c)
	case p.alive.Err() == nil:
		p.farSide.refused(err)
	}
}

// dial makes an error of a panic.
func (p *carriers) dial() (c *carrier, err error) {
	defer gateway.CatchPanic(p.farSide.cfg.Log, p.farSide.cfg.Stats, func() { err = gateway.ErrPanicked })
	return p.farSide.dialCarrier(p.alive)
}

// put gives back a carrier whose exchange is complete.
func (p *carriers) put(c *carrier) {
	p.mu.Lock()
	closed := p.alive.Err() != nil
	if !closed {
		c.idle = time.AfterFunc(carrierIdle, func() { p.expire(c) })
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		p.drop(c)
	}
}

// expire drops a carrier if nobody has taken it meanwhile.
func (p *carriers) expire(c *carrier) {
	defer gateway.CatchPanic(p.farSide.cfg.Log, p.farSide.cfg.Stats, nil)
	p.mu.Lock()
	found := false
	for i, other := range p.idle {
		if found = other == c; found {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	if found {
		p.drop(c)
	}
}

// drop ends a carrier.
func (p *carriers) drop(c *carrier) {
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
	c.close()
}

// close ends those that are free; others end when they are given back.
func (p *carriers) close() {
	if p == nil {
		return
	}
	p.cancel()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.idle.Stop()
		p.drop(c)
	}
}
