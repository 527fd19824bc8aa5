package http

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// A client that stops in the middle of a body gets an error after a while. One that continues, however
// slowly, does not.
func TestSlowBodies(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		answered   bool // before the body stops
		ends       bool
	}{
		{"stopped", "text/plain", false, true},
		{"answered", "text/plain", true, false},
		{"gRPC", "application/grpc+proto", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer near.Close()
				read := make(chan error, 1)
				server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					x := &exchange{in: r, control: http.NewResponseController(w)}
					body := &clientBody{ReadCloser: r.Body, exchange: x}
					b := make([]byte, 1)
					for range 5 {
						if _, err := io.ReadFull(body, b); err != nil {
							t.Errorf("a slow body: %v", err)
						}
					}
					if c.answered {
						x.clearBodyDeadline()
					}
					_, err := io.ReadFull(body, b)
					read <- err
				})}
				done := make(chan struct{})
				server.ConnState = func(_ net.Conn, s http.ConnState) {
					if s == http.StateClosed {
						close(done)
					}
				}
				go func() { _ = server.Serve(newOneConn(far, done)) }()
				go func() { _, _ = io.Copy(io.Discard, near) }()
				_, _ = io.WriteString(near, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: "+c.kind+"\r\nContent-Length: 6\r\n\r\n")
				for range 5 {
					time.Sleep(bodyTimeout - time.Second)
					_, _ = io.WriteString(near, "x")
				}
				time.Sleep(bodyTimeout - time.Second)
				synctest.Wait()
				select {
				case err := <-read:
					t.Fatalf("ended too early: %v", err)
				default:
				}
				if !c.ends {
					time.Sleep(time.Hour)
					_, _ = io.WriteString(near, "x")
				}
				if err := <-read; errors.Is(err, errBodySlow) != c.ends || errors.Is(err, os.ErrDeadlineExceeded) != c.ends {
					t.Errorf("the read ended with %v", err)
				}
				_ = near.Close()
				<-done
			})
		})
	}
}

// The reply to a request whose body stopped is 408.
func TestSlowBodyIsAnswered(t *testing.T) {
	client := memory.NewConnMemory(&net.TCPAddr{}, nil, nil)
	defer client.Close()
	in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	x := &exchange{common: &common{cfg: &Config{Log: slog.New(slog.DiscardHandler)}}, in: in, memory: client}
	w := httptest.NewRecorder()
	x.fail(w, errBodySlow)
	if w.Code != http.StatusRequestTimeout || w.Header().Get("Connection") != "close" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
}
