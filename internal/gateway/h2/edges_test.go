package h2

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// A client that goes away within a body has not ended it: the handler must not take what came for all.
func TestClientGoesWithinABody(t *testing.T) {
	got := make(chan error, 1)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}, nil)
	r := rawClient(t, addr)
	r.headers(1, false, with("content-type", "application/grpc")...)
	_ = r.WriteData(1, false, []byte("half"))
	_ = r.net.(*net.TCPConn).CloseWrite() // a process that dies does so
	select {
	case err := <-got:
		if err == nil {
			t.Error("a body that was cut off looks whole")
		}
	case <-within(t).Done():
		t.Error("the handler goes on")
	}
}
