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

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	maxPeerConns = 8               // limit for one client, or for all that share them
	peerConnIdle = 5 * time.Minute // longer than the time between two scrapes
	upgradeRetry = 10 * time.Second
)

// peerGateway is the near gateway's view of the far one: whether there is one, and how to connect to it.
type peerGateway struct {
	cfg       *Config
	up        endpoint.Upstream
	histories *histories

	mu            sync.Mutex
	isGateway     bool      // the last reply came from a gateway
	retryAt       time.Time // after a refusal
	loggedMissing bool      // it was logged that there is no gateway
	loggedFound   bool      // it was logged that there is one
}

func newPeerGateway(c *Config, h *histories) *peerGateway {
	p := &peerGateway{cfg: c, up: c.Upstream, histories: h}
	if p.up.TLS != nil {
		p.up.TLS = p.up.TLS.Clone()
		p.up.TLS.NextProtos = []string{"http/1.1"}
		if p.up.TLS.ClientSessionCache == nil {
			p.up.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
	}
	return p
}

// recordReply records whether a reply came from a gateway.
func (p *peerGateway) recordReply(isGateway bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isGateway = isGateway
	if !isGateway && !p.loggedMissing {
		p.loggedMissing = true
		p.cfg.Log.Warn("the upstream is no gateway with peers: bodies go without history", "upstream", p.up.String())
	}
}

// canUpgrade reports whether the upstream may be asked to upgrade a connection.
func (p *peerGateway) canUpgrade() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isGateway && time.Now().After(p.retryAt)
}

// connected logs once, and again after a refusal, that the upstream is a gateway with peers.
func (p *peerGateway) connected(window int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loggedFound {
		p.loggedFound = true
		p.cfg.Log.Info("the upstream is a gateway with peers: bodies go with history", "upstream", p.up.String(), "window_bytes", 1<<window)
	}
}

func (p *peerGateway) refused(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retryAt, p.loggedFound = time.Now().Add(upgradeRetry), false
	p.cfg.Log.Warn("no connection with history to the far gateway, bodies go without", "upstream", p.up.String(), "err", err)
}

// peerConns holds the peer connections of one client, or of all clients.
type peerConns struct {
	peer   *peerGateway
	alive  context.Context
	cancel context.CancelFunc

	mu         sync.Mutex
	idle       []*peerConn
	all        map[*peerConn]struct{}
	connecting int // peer connections that are being connected
	spare      int // number of further exchanges that go without a peer connection, and for which none is connected
}

func newPeerConns(p *peerGateway) *peerConns {
	if p == nil {
		return nil
	}
	c := &peerConns{peer: p, all: map[*peerConn]struct{}{}}
	c.alive, c.cancel = context.WithCancel(context.Background())
	return c
}

// take returns a free peer connection. The caller has to give it back with put or drop. If there is none take
// returns nil, and begins to connect another one for later exchanges.
func (p *peerConns) take() *peerConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		p.connectMore()
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	c.idle.Stop()
	return c
}

// hasIdle reports whether a peer connection is free. If none is it begins to connect another one.
func (p *peerConns) hasIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		p.connectMore()
		return false
	}
	return true
}

// connectMore begins to connect another peer connection if there may be more. p.mu must be held.
func (p *peerConns) connectMore() {
	if p.spare > 0 {
		p.spare--
		return
	}
	if len(p.all) == 0 && p.connecting > 0 { // the upstream may refuse: ask no second time before its answer is known
		return
	}
	if p.alive.Err() == nil && len(p.all)+p.connecting < maxPeerConns && p.peer.canUpgrade() {
		p.connecting++
		go p.add()
	}
}

func (p *peerConns) add() {
	defer gateway.CatchPanic(p.peer.cfg.Log, p.peer.cfg.Stats, nil)
	c, err := p.dial()
	p.mu.Lock()
	p.connecting--
	if err == nil {
		p.all[c] = struct{}{}
	}
	p.mu.Unlock()
	switch {
	case err == nil:
		p.peer.connected(c.window)
		p.put(c)
	case p.alive.Err() == nil:
		p.peer.refused(err)
	}
}

// dial connects a peer connection and turns a panic into an error.
func (p *peerConns) dial() (c *peerConn, err error) {
	defer gateway.CatchPanic(p.peer.cfg.Log, p.peer.cfg.Stats, func() { err = gateway.ErrPanicked })
	return p.peer.dialConn(p.alive)
}

// put gives back a peer connection whose exchange is complete.
func (p *peerConns) put(c *peerConn) {
	p.mu.Lock()
	closed := p.alive.Err() != nil
	if !closed {
		c.idle = time.AfterFunc(peerConnIdle, func() { p.expire(c) })
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		p.drop(c)
	}
}

// expire drops a peer connection if it is still idle.
func (p *peerConns) expire(c *peerConn) {
	defer gateway.CatchPanic(p.peer.cfg.Log, p.peer.cfg.Stats, nil)
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

// drop closes a peer connection.
func (p *peerConns) drop(c *peerConn) {
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
	c.close()
}

// close closes the idle peer connections; the others are closed when they are given back.
func (p *peerConns) close() {
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

// upgradeTimeout limits the time for connecting a peer connection and for its upgrade.
const upgradeTimeout = 5 * time.Second

// errOver is returned when a peer connection has ended, and nothing of the exchange has reached the far
// gateway, or nothing that is harmful if it is sent again: net/http requested another connection.
var errOver = errors.New("the connection between the gateways is over")

var errNoPair = errors.New("the upstream does not upgrade to " + pairProtocol)

// peerConn is a connection to the far gateway with its own histories, for one exchange at a time.
type peerConn struct {
	*history
	transport *http.Transport
	conn      net.Conn
	idle      *time.Timer
	dialed    atomic.Bool // the transport has got the connection
	closing   sync.Once
}

// dialConn connects to the far gateway and upgrades the connection.
func (p *peerGateway) dialConn(ctx context.Context) (*peerConn, error) {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	window, cost, err := p.histories.take(maxWindow)
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
	c := &peerConn{history: h, conn: conn}
	c.transport = &http.Transport{
		DialContext: c.dialOnce, DisableCompression: true, MaxConnsPerHost: 1,
		MaxResponseHeaderBytes: int64(p.cfg.MaxHeader), ExpectContinueTimeout: expectTimeout,
	}
	return c, nil
}

// upgraded connects to the far gateway and upgrades the connection. It returns the window, which the far
// gateway may have reduced, and the longest body that the far gateway decompresses.
func (p *peerGateway) upgraded(ctx context.Context, window int) (conn net.Conn, got, peerOpens int, err error) {
	conn, err = gateway.Dial(ctx, p.up, p.cfg.Stats)
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

// dialOnce is the transport's dial function. It returns the connection once, and fails if the far gateway has
// closed it meanwhile. Later the transport detects that by itself.
func (c *peerConn) dialOnce(context.Context, string, string) (net.Conn, error) {
	if c.dialed.Swap(true) {
		return nil, errOver
	}
	if n, err := gateway.ReadReady(c.conn, make([]byte, 1)); n > 0 || err != nil {
		return nil, errOver
	}
	return c.conn, nil
}

func (c *peerConn) close() {
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
		level: c.LinkLevel, window: min(c.LinkWindow, maxWindow),
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
	for window = min(window, h.window); window >= minWindow; window-- {
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
