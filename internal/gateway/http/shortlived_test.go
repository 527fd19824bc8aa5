package http

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// A client that sends one request on a connection makes the gateways open no connections between them, since
// they would not be used.
func TestOneRequestAConnection(t *testing.T) {
	var upgrades atomic.Int32
	far := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			upgrades.Add(1)
		}
		w.Header().Set(pairHeader, pairVersion)
	}))
	near := start(t, far, func(c *Config) { c.Link = PerClient }, policy.MessageRule{Auto: true})
	for range 20 {
		_ = post(t, near.url, bytes.NewReader(text)).Body.Close()
	}
	if n := upgrades.Load(); n > 0 {
		t.Errorf("%d upgrades", n)
	}
	c := client(t)
	for upgrades.Load() == 0 {
		send(t, c, http.MethodPost, near.url, text)
	}
}
