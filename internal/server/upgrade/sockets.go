package upgrade

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Sockets holds the listeners of a process. The zero value has inherited none. It is safe for concurrent use.
type Sockets struct {
	mu    sync.Mutex
	given []*socket // inherited, not requested yet
	taken []*socket // including closed ones, until others are taken
	ready func()    // tells the predecessor that this process serves; nil: there is none, or it has been told

	successor int // process id; 0: none
}

// socket is a listener with its identification.
type socket struct {
	Name    string // as passed to Listen ("" for the nodes of a cluster), or as configured in systemd
	Address string // as passed to Listen; "": not requested before
	Kept    bool   // systemd's: closing it keeps the file of a unix socket

	listener net.Listener
}

// Listen returns the inherited listener for an address or a name, or a new one.
func (s *Sockets) Listen(address, name string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.take(address, name); k != nil {
		k.Name, k.Address = name, address
		s.taken = append(s.taken, k)
		return k.listener, nil
	}
	l, err := gateway.Listen(address)
	if err == nil {
		s.taken = append(s.open(), &socket{Name: name, Address: address, listener: l})
	}
	return l, err
}

// take takes an inherited socket: one that served the address before, one of that name, or one that happens
// to have the address.
func (s *Sockets) take(address, name string) *socket {
	for _, fits := range []func(k *socket) bool{
		func(k *socket) bool { return k.Address == address },
		func(k *socket) bool { return name != "" && k.Name == name && (k.Kept || k.Address == "") },
		func(k *socket) bool { return isAt(k.listener.Addr(), address) },
	} {
		for i, k := range s.given {
			if fits(k) {
				s.given = append(s.given[:i:i], s.given[i+1:]...)
				return k
			}
		}
	}
	return nil
}

// open returns the taken sockets that are not closed.
func (s *Sockets) open() (list []*socket) {
	for _, k := range s.taken {
		if raw, err := k.listener.(syscall.Conn).SyscallConn(); err == nil && raw.Control(func(uintptr) {}) == nil {
			list = append(list, k)
		}
	}
	return list
}

// isAt reports whether a listener is at an address as written in a configuration.
func isAt(at net.Addr, address string) bool {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return at.Network() == "unix" && at.String() == strings.TrimPrefix(path, "//")
	}
	have, ok := at.(*net.TCPAddr)
	if !ok {
		return false
	}
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil || want.Port != have.Port || want.Port == 0 {
		return false
	}
	everywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return want.IP.Equal(have.IP) || everywhere(want.IP) && everywhere(have.IP)
}

// CloseUnused closes the inherited sockets that were not requested, and logs them. Clients that connect to
// them would wait in vain. Unless last is true, it keeps those that a gateway to a cluster may still request
// when it has discovered its nodes.
func (s *Sockets) CloseUnused(log *slog.Logger, last bool) {
	s.mu.Lock()
	var unused, left []*socket
	for _, k := range s.given {
		if !last && (k.Name == "" || k.Address == "") { // a node's, or one of systemd not requested yet
			left = append(left, k)
		} else {
			unused = append(unused, k)
		}
	}
	s.given = left
	s.mu.Unlock()
	for _, k := range unused {
		log.Warn("an inherited socket is closed: nothing listens there", "name", k.Name, "address", k.listener.Addr().String())
		k.keepFile(false)
		_ = k.listener.Close()
	}
}

// keepFile sets whether closing a unix socket leaves its file. Those of systemd are never removed.
func (k *socket) keepFile(keep bool) {
	if l, ok := k.listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(!keep && !k.Kept)
	}
}
