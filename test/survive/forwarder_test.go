package survive

import (
	"net"
	"sync"
	"testing"
)

// forwarder is an address that leads to one server or another: a virtual IP, or a link
// that stalls. It never ends a connection by itself.
type forwarder struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	conns  []net.Conn
	frozen chan struct{} // closed when what is connected now goes no further
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

// pump swallows everything once it is frozen.
func pump(to, from net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			return // and nobody is told
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

// lead takes new connections elsewhere.
func (f *forwarder) lead(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
}

// freeze lets nothing more through on what is connected, as a host without power does.
func (f *forwarder) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
	f.frozen = make(chan struct{})
}

// cut ends everything that is connected.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}
