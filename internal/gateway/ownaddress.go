package gateway

import (
	"errors"
	"net"
	"slices"
	"sync"
)

// ErrOwnAddress is wrapped by Dial's error if it has reached a listener of the gateway itself. Each connection to
// such a listener would make the gateway dial it again, without end.
var ErrOwnAddress = errors.New("the address leads back to this gateway: set it to the server's address")

// ownAddresses holds the addresses at which a gateway listens, so that it does not connect to itself. That could
// happen when the server's host name is moved to the gateway's machine, or when cluster nodes announce the
// gateway's address.
type ownAddresses struct {
	mu  sync.Mutex
	all []net.Addr
}

// trackListener records that the gateway listens at an address. The caller must call ended when the listener is closed.
func (s *Stats) trackListener(at net.Addr) (ended func()) {
	if s == nil {
		return func() {}
	}
	own := &s.ownAddresses
	own.mu.Lock()
	defer own.mu.Unlock()
	own.all = append(own.all, at)
	return func() {
		own.mu.Lock()
		defer own.mu.Unlock()
		if i := slices.Index(own.all, at); i >= 0 {
			own.all = slices.Delete(own.all, i, i+1)
		}
	}
}

// isOwn reports whether c, which this process has dialed, leads to a listener of the gateway.
func (s *Stats) isOwn(c net.Conn) bool {
	if s == nil {
		return false
	}
	s.ownAddresses.mu.Lock()
	defer s.ownAddresses.mu.Unlock()
	return slices.ContainsFunc(s.ownAddresses.all, func(at net.Addr) bool { return leadsTo(c, at) })
}

// leadsTo reports whether c is connected to a listener at an address of this machine.
func leadsTo(c net.Conn, at net.Addr) bool {
	switch at := at.(type) {
	case *net.UnixAddr:
		to, ok := c.RemoteAddr().(*net.UnixAddr)
		return ok && to.Name == at.Name
	case *net.TCPAddr:
		to, ok := c.RemoteAddr().(*net.TCPAddr)
		if !ok || to.Port != at.Port {
			return false
		}
		// If the listener listens on all addresses of the machine, and c leads to one of them, then c also comes from
		// that address.
		from, ok := c.LocalAddr().(*net.TCPAddr)
		return at.IP.Equal(to.IP) || at.IP.IsUnspecified() && (to.IP.IsLoopback() || ok && from.IP.Equal(to.IP))
	}
	return false
}
