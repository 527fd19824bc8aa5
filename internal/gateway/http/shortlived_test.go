package http

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// A client that sends one request on a connection makes the gateways open no link, since it would not be used.
func TestOneRequestAConnection(t *testing.T) {
	far, links := claimsToBeFar(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	near := start(t, far, func(c *Config) { c.Link = PerClient }, policy.MessageRule{Auto: true})
	for range 20 {
		_ = post(t, near.url, bytes.NewReader(text)).Body.Close()
	}
	if n := len(links); n > 0 {
		t.Errorf("%d links", n)
	}
	c := client(t)
	for len(links) == 0 {
		send(t, c, http.MethodPost, near.url, text)
	}
}
