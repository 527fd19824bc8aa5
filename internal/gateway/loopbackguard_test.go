package gateway

import (
	"context"
	"errors"
	"net"
	"testing"
)

// endsAt is a connection with a given address at the other end.
type endsAt struct {
	net.Conn
	remote net.Addr
}

func (c endsAt) RemoteAddr() net.Addr { return c.remote }

func at(t *testing.T, addr string) net.Conn {
	if addr == "unix" {
		return endsAt{remote: &net.UnixAddr{Name: "/run/s", Net: "unix"}}
	}
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return endsAt{remote: a}
}

func TestLoopbackGuard(t *testing.T) {
	unreachable := errors.New("unreachable")
	for _, c := range []struct {
		client, upstream string
		closed           bool
		err              error // of asking the server
		off, refused     bool
	}{
		{"192.0.2.1:5", "127.0.0.1:6379", false, nil, false, true},
		{"192.0.2.1:5", "[::1]:6379", false, nil, false, true},
		{"192.0.2.1:5", "unix", false, nil, false, true},
		{"[2001:db8::1]:5", "127.0.0.1:6379", false, unreachable, false, true},
		{"192.0.2.1:5", "127.0.0.1:6379", true, nil, false, false},
		{"192.0.2.1:5", "127.0.0.1:6379", false, nil, true, false},
		{"127.0.0.1:5", "127.0.0.1:6379", false, nil, false, false},
		{"[::ffff:127.0.0.9]:5", "127.0.0.1:6379", false, nil, false, false},
		{"unix", "127.0.0.1:6379", false, nil, false, false},
		{"192.0.2.1:5", "192.0.2.9:6379", false, nil, false, false},
	} {
		guard := LoopbackGuard{Off: c.off, Probe: &AuthProbe{Ask: func(context.Context) (bool, error) { return c.closed, c.err }}}
		err := guard.Check(t.Context(), at(t, c.client), at(t, c.upstream))
		if errors.Is(err, ErrOpenListener) != c.refused {
			t.Errorf("%s before %s, closed %v, asking %v, off %v: %v", c.client, c.upstream, c.closed, c.err, c.off, err)
		}
	}
}

// A PROXY header can't make a client count as local.
func TestLoopbackGuardIgnoresProxyHeaders(t *testing.T) {
	guard := LoopbackGuard{Probe: &AuthProbe{Ask: func(context.Context) (bool, error) { return false, nil }}}
	local, remote := at(t, "127.0.0.1:5"), at(t, "192.0.2.1:5")
	forged := &Conn{Conn: remote, remote: local.RemoteAddr(), proxyTrusted: true}
	if err := guard.Check(t.Context(), forged, at(t, "127.0.0.1:6379")); !errors.Is(err, ErrOpenListener) {
		t.Errorf("a remote peer that names a local client: %v", err)
	}
	balanced := &Conn{Conn: local, remote: remote.RemoteAddr()}
	if err := guard.Check(t.Context(), balanced, at(t, "127.0.0.1:6379")); err != nil {
		t.Errorf("a balancer on this machine: %v", err)
	}
}

// nested is a stream within another connection.
type nested struct {
	net.Conn
	below net.Conn
}

func (n nested) NetConn() net.Conn { return n.below }

// A stream of a link counts as coming from the address of the accepted connection, not from the address in an untrusted
// PROXY header.
func TestAddressesOfStreams(t *testing.T) {
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	real, claimed := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2}
	below := newConn(addressed{a, real}, nil)
	below.remote = claimed
	stream := NewConn(nested{addressed{b, claimed}, nested{b, below}})
	if at := peerAddr(stream); at != net.Addr(real) {
		t.Errorf("the peer is %v", at)
	}
	if at := BudgetAddress(stream); at != net.Addr(real) {
		t.Errorf("memory is counted for %v", at)
	}
	below.proxyTrusted = true
	if at := BudgetAddress(stream); at != net.Addr(claimed) {
		t.Errorf("behind a trusted balancer memory is counted for %v", at)
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }
