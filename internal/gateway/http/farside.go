package http

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
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

// upgradeTimeout bounds how long the far gateway may take to answer an upgrade.
const upgradeTimeout = 5 * time.Second

// errOver says that a carrier's connection is over, and that nothing of the exchange has reached the far gateway, or nothing
// that could do harm if it came again: net/http asked for another connection.
var errOver = errors.New("the connection between the gateways is over")

var errNoPair = errors.New("the upstream does not upgrade to " + pairProtocol)

// carrier is a connection to the far gateway, for one exchange at a time, with histories of its own.
type carrier struct {
	*history
	transport *http.Transport
	conn      net.Conn
	idle      *time.Timer
	given     atomic.Bool // the transport has the connection
	closing   sync.Once
}

// dialCarrier connects, and upgrades the connection.
func (p *farSide) dialCarrier(ctx context.Context) (*carrier, error) {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	window, cost, err := p.histories.take(mostWindow)
	if err != nil {
		return nil, err
	}
	conn, window, err := p.upgraded(ctx, window)
	if err != nil {
		p.histories.memory.Release(cost)
		return nil, err
	}
	h, err := p.histories.open(window, cost)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &carrier{history: h, conn: conn}
	c.transport = &http.Transport{
		DialContext: c.give, DisableCompression: true, MaxConnsPerHost: 1,
		MaxResponseHeaderBytes: int64(p.cfg.MaxHeader), ExpectContinueTimeout: expectTimeout,
	}
	return c, nil
}

// upgraded connects to the far gateway, which may want a smaller window.
func (p *farSide) upgraded(ctx context.Context, window int) (net.Conn, int, error) {
	conn, err := p.up.Dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	got, err := upgrade(conn, window)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, 0, err
	}
	return conn, got, nil
}

// upgrade asks for the protocol of pairs on a new connection.
func upgrade(conn net.Conn, window int) (int, error) {
	r, _ := http.NewRequest(http.MethodGet, "http://cinch.invalid/", nil)
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {pairProtocol}, pairHeader: {formatTerms(window)}, "User-Agent": {"cinch"},
	}
	if err := r.Write(conn); err != nil {
		return 0, err
	}
	in := bufio.NewReader(io.LimitReader(conn, DefaultMaxHeader))
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return 0, err
	}
	got, ok := parseTerms(resp.Header)
	switch {
	case resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != pairProtocol:
		return 0, fmt.Errorf("%w: %s", errNoPair, resp.Status)
	case !ok || got > window || in.Buffered() > 0:
		return 0, fmt.Errorf("%w: it answers %s: %q", errNoPair, pairHeader, resp.Header.Get(pairHeader))
	}
	return got, nil
}

// give is the transport's dial function. It returns the connection once, and fails if the far gateway has closed it meanwhile;
// later the transport notices that by itself.
func (c *carrier) give(context.Context, string, string) (net.Conn, error) {
	if c.given.Swap(true) {
		return nil, errOver
	}
	if n, err := gateway.ReadReady(c.conn, make([]byte, 1)); n > 0 || err != nil {
		return nil, errOver
	}
	return c.conn, nil
}

func (c *carrier) close() {
	c.closing.Do(func() {
		c.transport.CloseIdleConnections()
		_ = c.conn.Close()
		c.history.close()
	})
}

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

// history holds the histories that both ends of such a connection keep: of bodies that are sent, and of those that are received.
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
