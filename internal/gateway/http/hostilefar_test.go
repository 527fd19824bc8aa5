package http

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// hostileFar starts a server that claims to be a gateway, and answers upgrades with upgrade.
func hostileFar(t *testing.T, upgrade func(conn net.Conn)) (addr string, upgrades chan struct{}) {
	t.Helper()
	upgrades = make(chan struct{}, 100)
	return startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(pairHeader, pairVersion)
		if r.Header.Get("Upgrade") == "" {
			echo(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		upgrades <- struct{}{}
		upgrade(conn)
	})), upgrades
}

// With a far gateway that answers upgrades wrongly exchanges work, without history.
func TestHostileFar(t *testing.T) {
	for name, upgrade := range map[string]func(net.Conn){
		"closes":    func(net.Conn) {},
		"garbage":   func(c net.Conn) { _, _ = io.WriteString(c, "garbage\r\n\r\n") },
		"no window": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 101 X\r\nUpgrade: cinch-pair/1\r\n\r\n") },
		"a large window": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 X\r\nUpgrade: cinch-pair/1\r\nCinch-Pair: 1; window=31\r\n\r\n")
		},
		"speaks first": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 X\r\nUpgrade: cinch-pair/1\r\nCinch-Pair: 1; window=20\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		},
		"endless headers": func(c net.Conn) {
			_, err := io.WriteString(c, "HTTP/1.1 101 X\r\n")
			for n := 0; err == nil; n++ {
				if _, err = fmt.Fprintf(c, "X-%d: %s\r\n", n, strings.Repeat("x", 4000)); n > 100_000 {
					t.Error("they are read")
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			far, upgrades := hostileFar(t, upgrade)
			near := start(t, far, func(c *Config) { c.Link = Shared }, requestsTo(t, "zstd"))
			c := client(t)
			for asked := false; !asked; {
				if resp, got := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(decoded(t, resp.Header.Get("X-Got-Content-Encoding"), got), text) {
					t.Errorf("%s, %d bytes", resp.Status, len(got))
				}
				select {
				case <-upgrades:
					asked = true
				default:
				}
			}
			testenv.Eventually(t, "memory is given back", func() bool { return near.common.histories.memory.InUse() == 0 })
			if resp, _ := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 {
				t.Error(resp.Status)
			}
		})
	}
}
