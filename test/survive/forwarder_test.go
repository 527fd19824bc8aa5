package survive

import (
	"net"
	"sync"
	"testing"
)

// forwarder forwards connections to one server or another, like a virtual IP or a link that stalls. It
// never ends a connection by itself.
type forwarder struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	conns  []net.Conn
	frozen chan struct{} // closed when current connections are frozen
}

func newForwarder(t testing.TB, target string) *forwarder {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &forwarder{listener: ln, target: target, frozen: make(chan struct{})}
	go f.serve()
	t.Cleanup(func() { ln.Close(); f.cut() })
	return f
}

func (f *forwarder) addr() string { return f.listener.Addr().String() }
func (f *forwarder) port() int    { return f.listener.Addr().(*net.TCPAddr).Port }

func (f *forwarder) serve() {
	for {
		in, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		target, frozen := f.target, f.frozen
		f.mu.Unlock()
		out, err := net.Dial("tcp", target)
		if err != nil {
			in.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, in, out)
		f.mu.Unlock()
		go pump(in, out, frozen)
		go pump(out, in, frozen)
	}
}

// pump copies bytes, and discards them once frozen is closed.
func pump(to, from net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			return // without closing the connections
		default:
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			from.Close()
			to.Close()
			return
		}
	}
}

// lead forwards new connections to another server.
func (f *forwarder) lead(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
}

// freeze stops all transfer on current connections, as a host without power does.
func (f *forwarder) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
	f.frozen = make(chan struct{})
}

// cut closes all current connections.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}
