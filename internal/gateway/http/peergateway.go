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
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	mostCarriers = 8               // limit for one client, or for all that share them
	carrierIdle  = 5 * time.Minute // longer than the time between two scrapes
	askAgain     = 10 * time.Second
)

// farSide is the near gateway's view of the far one: whether there is one, and how to connect to it.
type farSide struct {
	cfg       *Config
	up        gateway.Upstream
	histories *histories

	mu      sync.Mutex
	seen    bool      // the last reply came from a gateway
	nextAsk time.Time // after a refusal
	muted   bool      // it was logged that there is no gateway
	paired  bool      // it was logged that there is one
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

// saw records whether a reply came from a gateway.
func (p *farSide) saw(isGateway bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = isGateway
	if !isGateway && !p.muted {
		p.muted = true
		p.cfg.Log.Warn("the upstream is no gateway with peers: bodies go without history", "upstream", p.up.String())
	}
}

// mayAsk reports whether the upstream may be asked to upgrade a connection.
func (p *farSide) mayAsk() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen && time.Now().After(p.nextAsk)
}

// connected logs once, and again after a refusal, that the upstream is a gateway with peers.
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

// carriers holds the carriers of one client, or of all clients.
type carriers struct {
	farSide *farSide
	alive   context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex
	idle  []*carrier
	all   map[*carrier]struct{}
	asks  int // carriers that are being connected
	spare int // number of further exchanges that go without a carrier, and for which none is connected
}

func newCarriers(p *farSide) *carriers {
	if p == nil {
		return nil
	}
	c := &carriers{farSide: p, all: map[*carrier]struct{}{}}
	c.alive, c.cancel = context.WithCancel(context.Background())
	return c
}

// take returns a free carrier. The caller has to give it back with put or drop. If there is none take returns
// nil, and begins to connect another one for later exchanges.
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

// ready reports whether a carrier is free. If none is it begins to connect another one.
func (p *carriers) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		p.ask()
		return false
	}
	return true
}

// ask begins to connect another carrier if there may be more. p.mu must be held.
func (p *carriers) ask() {
	if p.spare > 0 {
		p.spare--
		return
	}
	if len(p.all) == 0 && p.asks > 0 { // the upstream may refuse: ask no second time before its answer is known
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

// dial connects a carrier and turns a panic into an error.
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

// expire drops a carrier if it is still idle.
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

// drop closes a carrier.
func (p *carriers) drop(c *carrier) {
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
	c.close()
}

// close closes the idle carriers; the others are closed when they are given back.
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

// upgradeTimeout limits the time for connecting a carrier and for its upgrade.
const upgradeTimeout = 5 * time.Second

// errOver is returned when the connection of a carrier has ended, and nothing of the exchange has reached the
// far gateway, or nothing that is harmful if it is sent again: net/http requested another connection.
var errOver = errors.New("the connection between the gateways is over")

var errNoPair = errors.New("the upstream does not upgrade to " + pairProtocol)

// carrier is a connection to the far gateway with its own histories, for one exchange at a time.
type carrier struct {
	*history
	transport *http.Transport
	conn      net.Conn
	idle      *time.Timer
	given     atomic.Bool // the transport has got the connection
	closing   sync.Once
}

// dialCarrier connects to the far gateway and upgrades the connection.
func (p *farSide) dialCarrier(ctx context.Context) (*carrier, error) {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	window, cost, err := p.histories.take(mostWindow)
	if err != nil {
		return nil, err
	}
	conn, window, peerOpens, err := p.upgraded(ctx, window)
	if err != nil {
		p.histories.memory.Release(cost)
		return nil, err
	}
	h, err := p.histories.open(window, cost)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	h.peerOpens = peerOpens
	c := &carrier{history: h, conn: conn}
	c.transport = &http.Transport{
		DialContext: c.give, DisableCompression: true, MaxConnsPerHost: 1,
		MaxResponseHeaderBytes: int64(p.cfg.MaxHeader), ExpectContinueTimeout: expectTimeout,
	}
	return c, nil
}

// upgraded connects to the far gateway and upgrades the connection. It returns the window, which the far
// gateway may have reduced, and the longest body that the far gateway decompresses.
func (p *farSide) upgraded(ctx context.Context, window int) (conn net.Conn, got, peerOpens int, err error) {
	conn, err = p.up.Dial(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	got, peerOpens, err = upgrade(conn, window, p.cfg.MaxOpen)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, 0, 0, err
	}
	return conn, got, peerOpens, nil
}

// upgrade requests pairProtocol on a new connection, and returns the window that the far gateway grants, and
// the longest body that it decompresses.
func upgrade(conn net.Conn, window, maxOpen int) (got, peerOpens int, err error) {
	r, _ := http.NewRequest(http.MethodGet, "http://cinch.invalid/", nil)
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {pairProtocol}, pairHeader: {formatTerms(window)}, openHeader: {strconv.Itoa(maxOpen)}, "User-Agent": {"cinch"},
	}
	if err := r.Write(conn); err != nil {
		return 0, 0, err
	}
	in := bufio.NewReader(io.LimitReader(conn, DefaultMaxHeader))
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return 0, 0, err
	}
	got, ok := parseTerms(resp.Header)
	switch {
	case resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != pairProtocol:
		return 0, 0, fmt.Errorf("%w: %s", errNoPair, resp.Status)
	case !ok || got > window || in.Buffered() > 0:
		return 0, 0, fmt.Errorf("%w: it answers %s: %q", errNoPair, pairHeader, resp.Header.Get(pairHeader))
	}
	return got, maxOpenOf(resp.Header), nil
}

// give is the transport's dial function. It returns the connection once, and fails if the far gateway has
// closed it meanwhile. Later the transport detects that by itself.
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

// histories creates the histories of connections between gateways, within link.memory.
type histories struct {
	coders bodies.Coders
	memory *memory.Budget
	limit  int64 // of memory
	level  int
	window int
}

func newHistories(c *Config) *histories {
	return &histories{
		coders: bodies.Coders{Engine: c.Engine, Codecs: c.Codecs}, memory: memory.NewBudget(c.LinkMemory), limit: c.LinkMemory,
		level: c.LinkLevel, window: min(c.LinkWindow, mostWindow),
	}
}

// history holds the two histories of a connection between gateways, which both ends keep: of the bodies sent,
// and of those received.
type history struct {
	writer    *bodies.Writer
	reader    *bodies.Reader
	window    int
	peerOpens int // the longest body that the peer decompresses, in bytes

	memory *memory.Budget
	limit  int64 // of memory
	mu     sync.Mutex
	cost   int64 // bytes of memory
	fixed  int64 // part of cost that the streams take
	full   bool  // there was no memory for the reader: the connection has to end
}

// settle adjusts cost to the memory that the sessions of cinch-proto use. If there is not enough the writer
// forgets its session. If the reader's is still too large the connection has to end.
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

// grow takes memory for what is remembered now, or releases what is no longer remembered. It reports false if
// there is not enough. h.mu must be held.
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

// room returns how many more bytes cinch-proto may remember: a connection may use at most as many for it as
// it leaves free for others. h.mu must be held.
func (h *history) room() int64 { return (h.limit - h.memory.InUse() - (h.cost - h.fixed)) / 2 }

// isFull reports whether the connection has to end for lack of memory.
func (h *history) isFull() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.full
}

// take acquires memory for histories with the given window, or the largest smaller one that there is memory
// for. It returns that window and the bytes acquired.
func (h *histories) take(window int) (int, int64, error) {
	for window = min(window, h.window); window >= leastWindow; window-- {
		cost := h.coders.Bytes(h.level, window)
		if h.memory.TryAcquire(cost) {
			return window, cost, nil
		}
	}
	return 0, 0, errNoHistory
}

// open creates histories whose memory of cost bytes take has acquired. On an error it releases that memory.
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
