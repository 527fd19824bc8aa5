package testenv

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Relay forwards connections to a server unchanged and records the addresses from which it connected. A
// connection that the server sees from any other address bypassed the relay.
type Relay struct {
	Addr string

	// Watch sees the bytes of a client's connection before they are forwarded, from a goroutine for each direction.
	// nil: bytes are not observed. It must be set before clients connect.
	Watch func(client net.Conn, toServer bool, p []byte)

	listener net.Listener
	ready    <-chan struct{} // connections wait until it is closed; nil: they do not wait
	mu       sync.Mutex
	server   string // host:port
	open     map[net.Conn]bool
	came     map[string]bool // local addresses of its connections to servers
}

// StartRelay listens on a free port until the test ends.
func StartRelay(t testing.TB, server string) *Relay {
	t.Helper()
	r, err := RelayOn("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t))), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// RelayOn listens on an address until Close. Connections wait until ready is closed; if it is nil they do
// not wait.
func RelayOn(network, addr, server string, ready <-chan struct{}) (*Relay, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	r := &Relay{Addr: l.Addr().String(), listener: l, ready: ready, server: server, open: map[net.Conn]bool{}, came: map[string]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.carry(c)
		}
	}()
	return r, nil
}

// Close ends the relay and all its connections.
func (r *Relay) Close() {
	_ = r.listener.Close()
	r.Point("")
}

// Point closes all connections, and forwards new ones to another server.
func (r *Relay) Point(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = server
	for c := range r.open {
		_ = c.Close()
	}
}

// Came reports whether the connection that a server saw from addr was made by this relay.
func (r *Relay) Came(addr string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came[addr]
}

// dial connects to the server for client connection c, which Point may close.
func (r *Relay) dial(c net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := net.Dial("tcp", r.server)
	if err != nil {
		return nil, err
	}
	r.came[s.LocalAddr().String()] = true
	r.open[c] = true
	return s, nil
}

func (r *Relay) carry(c net.Conn) {
	defer c.Close()
	if r.ready != nil {
		<-r.ready
	}
	s, err := r.dial(c)
	if err != nil {
		return
	}
	defer func() {
		_ = s.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, c)
	}()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{s, c}, {c, s}} {
		both.Go(func() {
			var to io.Writer = pair[0]
			if r.Watch != nil {
				to = &watched{to, func(p []byte) { r.Watch(c, pair[0] == s, p) }}
			}
			if _, err := io.Copy(to, pair[1]); err != nil {
				_ = pair[1].Close()
			}
			_ = pair[0].(interface{ CloseWrite() error }).CloseWrite()
		})
	}
	both.Wait()
}

// watched calls see before it writes.
type watched struct {
	io.Writer
	see func([]byte)
}

func (w *watched) Write(p []byte) (int, error) {
	w.see(p)
	return w.Writer.Write(p)
}
