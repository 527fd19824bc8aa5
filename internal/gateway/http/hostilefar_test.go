package http

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// linkListener accepts connections for a server, and hands those that begin a link to another function.
type linkListener struct {
	net.Listener
	link func(net.Conn)
}

func (l *linkListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil {
			_ = c.Close()
			continue
		}
		if !peer.BeginsHello(first[:1]) {
			return &lengthCounter{Conn: c, ahead: first}, nil
		}
		go func() {
			defer c.Close()
			l.link(c)
		}()
	}
}

// claimsToBeFar starts a server that says that it accepts links. For each connection that begins a link it sends a
// value to links and calls link.
func claimsToBeFar(t *testing.T, link func(net.Conn)) (addr string, links chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	links = make(chan struct{}, 100)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(linkHeader, formatTerms(1<<20))
		echo(w, r)
	})}
	go func() { _ = server.Serve(&linkListener{l, func(c net.Conn) { links <- struct{}{}; link(c) }}) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String(), links
}

// If a far gateway answers hellos wrongly, exchanges work without links.
func TestHostileFar(t *testing.T) {
	hello := func(c net.Conn) {
		_, _ = c.Write(peer.Hello{Lowest: 1, Highest: 1, Window: 17, Codecs: 0x3f, Extensions: lanes.Extensions()}.Append(nil))
	}
	for name, link := range map[string]func(net.Conn){
		"closes":          func(net.Conn) {},
		"garbage":         func(c net.Conn) { _, _ = io.WriteString(c, "garbage that is no hello at all") },
		"another version": func(c net.Conn) { _, _ = c.Write(peer.Hello{Lowest: 9, Highest: 9, Codecs: 1}.Append(nil)) },
		"full": func(c net.Conn) {
			_, _ = c.Write(peer.Hello{Lowest: 1, Highest: 1, Codecs: 1, Status: peer.StatusRefused}.Append(nil))
		},
		"no lanes":  func(c net.Conn) { _, _ = c.Write(peer.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil)) },
		"ends":      hello,
		"no HTTP/2": func(c net.Conn) { hello(c); _, _ = c.Write(append(peer.AppendRaw(nil, 7), "garbage"...)) },
		"endless": func(c net.Conn) {
			hello(c)
			for _, err := c.Write(append(peer.AppendRaw(nil, 4000), strings.Repeat("x", 4000)...)); err == nil; {
				_, err = c.Write(append(peer.AppendRaw(nil, 4000), strings.Repeat("x", 4000)...))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			far, links := claimsToBeFar(t, link)
			near := start(t, far, func(c *Config) { c.Link = Shared }, requestsTo(t, "zstd"))
			c := client(t)
			for asked := false; !asked; {
				if resp, got := send(t, c, http.MethodPut, near.url, text); resp.StatusCode != 200 && resp.StatusCode != http.StatusBadGateway || resp.StatusCode == 200 && !bytes.Equal(decoded(t, resp.Header.Get("X-Got-Content-Encoding"), got), text) {
					t.Errorf("%s, %d bytes", resp.Status, len(got))
				}
				select {
				case <-links:
					asked = true
				default:
				}
			}
			testenv.Eventually(t, "the link is given up", func() bool {
				return !slices.ContainsFunc(near.common.links.Conns(), func(h *linkConn) bool { return !h.Conn.Ended() })
			})
			testenv.Eventually(t, "memory is given back", func() bool { return near.common.endpoint.State().Used == 0 })
		})
	}
}
