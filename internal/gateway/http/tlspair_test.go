package http

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Connections with history go by TLS as well, also those that have waited for their first exchange, and end unnoticed.
func TestPairByTLS(t *testing.T) {
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	rules := policy.MessageRule{Name: "requests", Auto: true}
	far := start(t, startUpstream(t, http.HandlerFunc(echo)), func(c *Config) {
		c.Peers, c.UpstreamReads, c.TLS = true, nil, &tls.Config{Certificates: lent.TLS.Certificates}
	}, rules)
	b := startBalancer(t, strings.TrimPrefix(far.url, "http://"))
	near := start(t, b.Addr().String(), func(c *Config) {
		c.Link, c.UpstreamReads = Shared, nil
		c.Upstream.TLS = &tls.Config{InsecureSkipVerify: true}
	}, rules)
	c := client(t)
	near.untilCarried(c)
	p := near.common.carriers
	p.mu.Lock()
	for _, x := range p.idle {
		_ = x.conn.(*tls.Conn).NetConn().Close()
	}
	p.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	before := far.stats.Snapshot().Total.Opened
	for began := time.Now(); far.stats.Snapshot().Total.Opened == before; time.Sleep(5 * time.Millisecond) {
		if resp, got := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(got, text) {
			t.Errorf("%s, %d bytes", resp.Status, len(got))
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("no history any more")
		}
	}
}
