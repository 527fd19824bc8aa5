package gateway

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// v2 returns a header from 192.0.2.7:1234 to 198.51.100.1:6379. If more is not 0 it ends with an extension of that many
// bytes.
func v2(t testing.TB, command proxyproto.ProtocolVersionAndCommand, more int) []byte {
	t.Helper()
	h := proxyproto.Header{
		Version: 2, Command: command, TransportProtocol: proxyproto.TCPv4,
		SourceAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1234}, DestinationAddr: &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 6379},
	}
	if more > 0 {
		if err := h.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_NOOP, Value: make([]byte, more-3)}}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const v1 = "PROXY TCP4 192.0.2.7 198.51.100.1 1234 6379\r\n"

// addresses is a session that sends the client its addresses and the bytes received from it, and ends.
type addresses struct{ c net.Conn }

func (a addresses) Run() {
	defer a.c.Close()
	buf, n, err := ReadFirst(a.c, 4096)
	if err != nil {
		return
	}
	defer memory.PutBuffer(buf)
	_, _ = a.c.Write([]byte(a.c.RemoteAddr().String() + " " + a.c.LocalAddr().String() + " " + string(buf[:n])))
}

func (addresses) Drain() {}

func serveProxied(t *testing.T, p *Proxied, s *Server) string {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.NewSession = func(c net.Conn) Session { return addresses{c} }
	go func() { _ = s.Serve(p.Wrap(l)) }()
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	return l.Addr().String()
}

func answerTo(t *testing.T, addr string, sent ...[]byte) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, b := range sent {
		_, _ = c.Write(b) // the server may have closed c already
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(c)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the connection stays open")
	}
	return string(got)
}

func TestProxied(t *testing.T) {
	addr := serveProxied(t, &Proxied{}, &Server{})
	const named = "192.0.2.7:1234 198.51.100.1:6379 hello"
	for name, header := range map[string][]byte{
		"v2": v2(t, proxyproto.PROXY, 0), "v2 with more": v2(t, proxyproto.PROXY, 200), "v1": []byte(v1),
		"the longest": v2(t, proxyproto.PROXY, maxProxyBody-12),
	} {
		if got := answerTo(t, addr, header, []byte("hello")); got != named {
			t.Errorf("%s: %q", name, got)
		}
		if got := answerTo(t, addr, slices.Concat(header, []byte("hello"))); got != named {
			t.Errorf("%s in one packet: %q", name, got)
		}
	}
	for name, header := range map[string][]byte{"LOCAL": v2(t, proxyproto.LOCAL, 0), "UNKNOWN": []byte("PROXY UNKNOWN\r\n")} {
		if got := answerTo(t, addr, header, []byte("hello")); !strings.HasSuffix(got, " "+addr+" hello") || !strings.HasPrefix(got, "127.0.0.1:") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, header := range map[string][]byte{
		"none":          []byte("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"),
		"too long":      v2(t, proxyproto.PROXY, maxProxyBody-11),
		"an empty line": []byte("PROXY     \r\n"),
		"no end":        []byte("PROXY " + strings.Repeat("x", 200)),
		"version 3":     append([]byte(proxySignature), 0x31, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
	} {
		if got := answerTo(t, addr, header, []byte("hello")); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestProxiedByOthers(t *testing.T) {
	for _, c := range []struct {
		trusted string
		want    bool
	}{{"127.0.0.0/8", true}, {"127.0.0.1/32", true}, {"10.0.0.0/8", false}, {"::1/128", false}} {
		addr := serveProxied(t, &Proxied{Trusted: []netip.Prefix{netip.MustParsePrefix(c.trusted)}}, &Server{})
		if got := answerTo(t, addr, v2(t, proxyproto.PROXY, 0), []byte("hello")); (got != "") != c.want {
			t.Errorf("from %s: %q", c.trusted, got)
		}
	}
}

// The address in a header decides from which share a connection takes memory only if a trusted balancer sent the
// header: otherwise each connection could name an address of its own.
func TestProxiedShares(t *testing.T) {
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		headers []string
		secure  bool
		shares  int
	}{
		"headers from any address": {nil, []string{"192.0.2.7", "192.0.2.8"}, false, 1},
		"below TLS":                {nil, []string{"192.0.2.7", "192.0.2.8"}, true, 1},
		"the balancer's":           {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, []string{"192.0.2.7", "192.0.2.8"}, false, 2},
		"and below TLS":            {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, []string{"192.0.2.7", "192.0.2.8"}, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			payers := map[string]bool{}
			for _, ip := range c.headers {
				near, far := tcpPair(t)
				if _, err := fmt.Fprintf(far, "PROXY TCP4 %s 198.51.100.1 1234 6379\r\n", ip); err != nil {
					t.Fatal(err)
				}
				conn := newConn(near, nil)
				if err := (&proxiedConn{near, &Proxied{Trusted: c.trusted}}).readHeader(conn); err != nil {
					t.Fatal(err)
				}
				var client net.Conn = conn
				if c.secure {
					client = tls.Server(conn, nil)
				}
				if got := memory.AddressOf(client.RemoteAddr()); got != ip {
					t.Errorf("logged as %s, said to be %s", got, ip)
				}
				payers[memory.AddressOf(BudgetAddress(client))] = true
			}
			if len(payers) != c.shares {
				t.Errorf("%d shares: %v", len(payers), payers)
			}
		})
	}
}

// A client that sends no header, or an unfinished one, is disconnected.
func TestProxiedTimeout(t *testing.T) {
	for _, begun := range [][]byte{nil, v2(t, proxyproto.PROXY, 0)[:5], []byte(v1[:20])} {
		synctest.Test(t, func(t *testing.T) {
			l := testenv.NewPipeListener()
			s := &Server{NewSession: func(c net.Conn) Session { return addresses{c} }}
			go func() { _ = s.Serve((&Proxied{}).Wrap(l)) }()
			defer func() { _ = s.Shutdown(t.Context()) }()
			c, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = c.Write(begun)
			_ = c.SetReadDeadline(time.Now().Add(2 * proxyTimeout))
			if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestProxiedTLS(t *testing.T) {
	ca := newTestCA(t)
	addr := serveProxied(t, &Proxied{}, &Server{TLS: ca.serverConfig(t)})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(v2(t, proxyproto.PROXY, 0)); err != nil {
		t.Fatal(err)
	}
	cfg := ca.clientConfig(t)
	cfg.ServerName = "127.0.0.1"
	tc := tls.Client(c, cfg)
	defer tc.Close()
	if _, err := tc.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(tc); string(got) != "192.0.2.7:1234 198.51.100.1:6379 hello" {
		t.Errorf("%q", got)
	}
}

// For any input, no byte after the header is read, and no more than the longest header.
func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte(v1 + "more"))
	f.Add(append(v2(f, proxyproto.PROXY, 10), "more"...))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, err := readProxyHeader(r)
		if taken := len(b) - r.Len(); err == nil && (taken != len(h) || !bytes.HasPrefix(b, h)) || taken > proxyV2Head+maxProxyBody {
			t.Fatalf("%d bytes taken for %d", taken, len(h))
		}
		if err == nil {
			_, _, _ = parseProxyHeader(h)
		}
	})
}
