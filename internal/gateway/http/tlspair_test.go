package http

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Links work over TLS too, and clients don't notice when one ends between two exchanges.
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
	open, ended := far.stats.Snapshot().Connections.Open, int64(0)
	for _, h := range near.common.links.Conns() {
		h.Conn.Close()
		ended++
	}
	testenv.Eventually(t, "the far gateway sees the end", func() bool { return far.stats.Snapshot().Connections.Open <= open-ended })
	before := far.stats.Snapshot().Total.Opened
	testenv.Eventually(t, "a link again", func() bool {
		if resp, got := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(got, text) {
			t.Errorf("%s, %d bytes", resp.Status, len(got))
		}
		return far.stats.Snapshot().Total.Opened > before
	})
}
