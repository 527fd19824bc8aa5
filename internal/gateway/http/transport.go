package http

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Connections to the upstream that nobody has used for so long are closed: servers close idle ones too (Node after 5 s), and
// what is sent at that moment is lost.
const upstreamIdle = 4 * time.Second

// expectTimeout is how long a request that expects "100 Continue" waits for it, as curl's does.
const expectTimeout = time.Second

// newTransport makes what speaks with the upstream.
func newTransport(c *Config) *http.Transport {
	up := c.Upstream
	secure := up.TLS
	up.TLS = nil // is the transport's business, which knows when HTTP/2 will not do
	t := &http.Transport{
		DialContext:            dialer(c, up),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        upstreamIdle,
		ExpectContinueTimeout:  expectTimeout,
		MaxResponseHeaderBytes: int64(c.MaxHeader),
		Protocols:              &http.Protocols{},
	}
	switch {
	case secure != nil:
		t.TLSClientConfig = secureFor(secure)
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	case c.H2C:
		t.Protocols.SetUnencryptedHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
	}
	return t
}

func secureFor(cfg *tls.Config) *tls.Config {
	out := cfg.Clone()
	if out.ClientSessionCache == nil {
		out.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return out
}

// dialer connects, and says in the log when the upstream is away and when it is back.
func dialer(c *Config, up gateway.Upstream) func(context.Context, string, string) (net.Conn, error) {
	reach := &gateway.Reach{}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := up.Dial(ctx)
		switch {
		case err == nil:
			reach.Answered(c.Log, up.String())
		case ctx.Err() == nil:
			reach.Failed(c.Log, c.Stats, "", up.String(), err)
		}
		return conn, err
	}
}
