package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// A load balancer in front of a gateway may name the client that it connects for in a PROXY header. The
// header comes before anything else, TLS included. Exactly the header is read: the bytes after it must stay in the
// socket, from which sessions read with their own system calls.
//
//	v1  "PROXY TCP4 192.0.2.7 198.51.100.1 49152 6379\r\n"   at most 107 bytes
//	v2  0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A | version, command | family | length, 2 bytes | length bytes

// Proxied is a listener whose connections begin with a PROXY header. Server reads the header in the
// connection's own goroutine.
type Proxied struct {
	net.Listener

	// Trusted lists the addresses that may send a header; others are disconnected. If it is empty, all addresses may
	// send one, but such headers count for logs only and not for shares of memory (see BudgetAddress). Connections by
	// a unix socket are trusted.
	Trusted []netip.Prefix
	Timeout time.Duration // for the header; 0: 5 s
}

// Wrap returns a listener that reads headers by p's settings from the connections of l; l itself if p is nil.
func (p *Proxied) Wrap(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return &Proxied{Listener: l, Trusted: p.Trusted, Timeout: p.Timeout}
}

// proxiedConn is a connection whose header has not been read.
type proxiedConn struct {
	net.Conn
	listener *Proxied
}

// Accept implements net.Listener.
func (p *Proxied) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxiedConn{c, p}, nil
}

// Errors of reading PROXY headers.
var (
	errProxyUntrusted = errors.New("the address may not send a PROXY header: add it to proxy_from")
	errProxyHeader    = errors.New("no PROXY header of version 1 or 2 at the start of the connection")
	errProxyLength    = errors.New("the PROXY header is too long")
)

const (
	proxyTimeout = 5 * time.Second

	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyBegin     = len(proxySignature)
	maxProxyLine   = 107     // version 1, by its specification
	maxProxyBody   = 4 << 10 // version 2: addresses, and the extensions that balancers add

	proxyV2Head = proxyBegin + 4 // with version, family and length
)

// readHeader reads the header and sets the addresses of c to those in the header. A LOCAL header, which a balancer
// sends with its own probes, leaves them unchanged.
func (p *proxiedConn) readHeader(c *Conn) error {
	if !p.listener.isTrusted(p.Conn.RemoteAddr()) {
		return errProxyUntrusted
	}
	timeout := p.listener.Timeout
	if timeout <= 0 {
		timeout = proxyTimeout
	}
	if err := p.Conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	b, err := readProxyHeader(p.Conn)
	if err != nil {
		return err
	}
	if c.remote, c.local, err = parseProxyHeader(b); err != nil {
		return err
	}
	c.proxyTrusted = len(p.listener.Trusted) > 0 || p.Conn.RemoteAddr().Network() == "unix"
	return p.Conn.SetReadDeadline(time.Time{})
}

// BudgetAddress returns the address from whose share of a budget a connection's messages take memory. A client that
// could choose it in a PROXY header would have as many shares as it likes, so headers count only from trusted
// balancers.
func BudgetAddress(c net.Conn) net.Addr {
	if wrapped, ok := accepted(c).(*Conn); ok && !wrapped.proxyTrusted {
		return wrapped.Conn.RemoteAddr()
	}
	return c.RemoteAddr()
}

func (p *Proxied) isTrusted(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || len(p.Trusted) == 0 {
		return true
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	for _, t := range p.Trusted {
		if t.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

// readProxyHeader reads exactly the header from r.
func readProxyHeader(r io.Reader) ([]byte, error) {
	b := make([]byte, proxyBegin, maxProxyLine)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%w: %w", errProxyHeader, err)
	}
	switch {
	case string(b) == proxySignature:
		return readProxyBody(r, b)
	case bytes.HasPrefix(b, []byte("PROXY ")):
		return readProxyLine(r, b)
	}
	return nil, errProxyHeader
}

func readProxyBody(r io.Reader, b []byte) ([]byte, error) {
	b = b[:proxyV2Head]
	if _, err := io.ReadFull(r, b[proxyBegin:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errProxyHeader, err)
	}
	n := int(binary.BigEndian.Uint16(b[proxyV2Head-2:]))
	if n > maxProxyBody {
		return nil, errProxyLength
	}
	b = append(b, make([]byte, n)...)
	if _, err := io.ReadFull(r, b[proxyV2Head:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errProxyHeader, err)
	}
	return b, nil
}

// readProxyLine reads byte by byte, because the length of the line is unknown.
func readProxyLine(r io.Reader, b []byte) ([]byte, error) {
	for b[len(b)-1] != '\n' {
		if len(b) == maxProxyLine {
			return nil, errProxyLength
		}
		b = b[:len(b)+1]
		if _, err := io.ReadFull(r, b[len(b)-1:]); err != nil {
			return nil, fmt.Errorf("%w: %w", errProxyHeader, err)
		}
	}
	return b, nil
}

// parseProxyHeader returns the client's address in a header, and the address that the client connected to; nil if the
// header names none.
func parseProxyHeader(b []byte) (remote, local net.Addr, err error) {
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(b), len(b)))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errProxyHeader, err)
	}
	if h.Command.IsLocal() {
		return nil, nil, nil
	}
	from, to, ok := h.TCPAddrs()
	if !ok {
		return nil, nil, nil // a unix socket at the balancer, or UNKNOWN
	}
	return from, to, nil
}
