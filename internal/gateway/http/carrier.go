package http

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

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

// give is how the transport connects: once, and if the far gateway hasn't closed the connection meanwhile. Of one that it has
// used it knows that by itself.
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
