package http

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
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

// A client that holds memory that others wait for, and makes no progress, is cut off, in both directions.
func TestStalledClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as patience with clients")
	}
	large := bytes.Repeat(text, 400)
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(large)))
		_, _ = w.Write(large)
	}))
	for name, begin := range map[string]string{
		"a request that does not come":         fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(large), large[:1<<20]),
		"a reply that is not read":             "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
		"a request that does not come, HTTP/2": inFrames(large[:1<<20], ":method", "POST", "content-length", fmt.Sprint(len(large))),
		"a reply that is not read, HTTP/2":     inFrames(nil, ":method", "GET", "accept-encoding", "gzip"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stalls(t, upstream, begin)
		})
	}
}

// stalls begins an exchange that makes no further progress, and waits until it is cut off.
func stalls(t *testing.T, upstream, begin string) {
	t.Helper()
	budget := memory.NewBudget(24 << 20)
	noGain := policy.MessageRule{Name: "replies", Setting: setting(t, "gzip"), Direction: policy.Reply, MinGain: 0.9999}
	g := start(t, upstream, func(c *Config) { c.Requests, c.Replies = budget, budget }, requestsTo(t, "zstd"), noGain)
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go func() { _, _ = io.WriteString(conn, begin) }()
	other := &memory.Account{}
	other.Open(budget.Share("other").Client(gateway.BudgetAddress(conn)), nil)
	defer other.Close()
	testenv.Eventually(t, "it is cut off", func() bool {
		other.TryAcquire(64 << 20)
		return g.stats.Snapshot().Errors["stalled"] > 0
	})
	testenv.Eventually(t, "it holds nothing", func() bool { return budget.InUse() == 0 })
}

// inFrames returns the beginning of an HTTP/2 connection, with a request whose body, if there is one, does
// not end.
func inFrames(body []byte, fields ...string) string {
	var out, block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	all := append([]string{":scheme", "http", ":path", "/", ":authority", "x"}, fields...)
	for i := 0; i < len(all); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	out.WriteString(xhttp2.ClientPreface)
	f := xhttp2.NewFramer(&out, nil)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == nil})
	for piece := range slices.Chunk(body, 16<<10) {
		_ = f.WriteData(1, false, piece)
	}
	return out.String()
}
