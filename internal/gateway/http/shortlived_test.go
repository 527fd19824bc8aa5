package http

import (
	"bytes"
	"net/http"
	"testing"
)

// A client that has one request a connection costs no connections between the gateways, which nobody would use.
func TestOneRequestAConnection(t *testing.T) {
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), nil)
	for range 20 {
		_ = post(t, near.url, bytes.NewReader(text)).Body.Close()
	}
	if n := far.stats.Snapshot().Connections.Total; n > 10 {
		t.Errorf("%d connections to the far gateway", n)
	}
}
