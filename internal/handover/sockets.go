package handover

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Sockets are the listeners of a process. The zero value has been given none. Its methods may be called from any goroutine.
type Sockets struct {
	mu    sync.Mutex
	given []*socket // nobody has asked for them yet
	taken []*socket // closed ones too, until others are
	ready func()    // tells the process before us that we serve; nil: there is none, or it knows

	successor int // its process; 0: there is none
}

// socket is a listener with what it is known by.
type socket struct {
	Name    string // as Listen has it, or as systemd was told
	Address string // as Listen has it; "": nobody has listened on it before
	Kept    bool   // systemd's: a file of it stays when we close it

	listener net.Listener
}

// Listen returns the listener that the process was given for an address or a name, or makes one.
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

// take takes a given socket: one that served the address before, one of that name, or one that happens to be at the address.
func (s *Sockets) take(address, name string) *socket {
	for _, fits := range []func(k *socket) bool{
		func(k *socket) bool { return k.Address == address },
		func(k *socket) bool { return k.Name == name && (k.Kept || k.Address == "") },
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

// open are those taken that are not closed.
func (s *Sockets) open() (list []*socket) {
	for _, k := range s.taken {
		if raw, err := k.listener.(syscall.Conn).SyscallConn(); err == nil && raw.Control(func(uintptr) {}) == nil {
			list = append(list, k)
		}
	}
	return list
}

// isAt reports whether a listener is at an address as configurations have it.
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

// CloseUnused closes what the process was given and has not asked for, and says so. Clients who connect there would wait for nothing. What a
// gateway to a cluster may ask for yet, when it has learnt of its nodes, is closed at last only.
func (s *Sockets) CloseUnused(log *slog.Logger, last bool) {
	s.mu.Lock()
	var unused, left []*socket
	for _, k := range s.given {
		if !last && (k.Name == "" || k.Address == "") { // a node's, or one of systemd that nobody has listened on
			left = append(left, k)
		} else {
			unused = append(unused, k)
		}
	}
	s.given = left
	s.mu.Unlock()
	for _, k := range unused {
		log.Warn("a socket that was handed over is closed: nothing listens there", "name", k.Name, "address", k.listener.Addr().String())
		k.keepFile(false)
		_ = k.listener.Close()
	}
}

// keepFile says whether closing a unix socket leaves its file. Those of systemd are never removed.
func (k *socket) keepFile(keep bool) {
	if l, ok := k.listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(!keep && !k.Kept)
	}
}
