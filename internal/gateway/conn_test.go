package gateway

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// tcpPair returns two ends of one TCP connection.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestConnCountsWhileItLives(t *testing.T) {
	stats := NewStats("test", "line")
	a, b := tcpPair(t)
	c := newConn(b, stats.side(sideClient))
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(a, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("you")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	bufs := net.Buffers{[]byte("and"), []byte("more"), nil, []byte("!")}
	if n, err := WriteBuffers(c, &bufs); n != 8 || err != nil {
		t.Fatalf("WriteBuffers: %d, %v", n, err)
	}
	got := make([]byte, 8)
	if _, err := io.ReadFull(a, got); err != nil || string(got) != "andmore!" {
		t.Fatalf("read %q, %v", got, err)
	}
	if got, want := stats.Snapshot().Wire.Client, (Traffic{ReceivedBytes: 3, SentBytes: 13}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestConnOptions(t *testing.T) {
	_, b := tcpPair(t)
	c := newConn(b, nil)
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		name            string
		level, opt, min int
	}{
		{"no delay", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		{"keepalive", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
	} {
		var got int
		var optErr error
		err := raw.Control(func(fd uintptr) { got, optErr = syscall.GetsockoptInt(int(fd), o.level, o.opt) })
		if err != nil || optErr != nil || got < o.min {
			t.Errorf("%s is %d (%v, %v)", o.name, got, err, optErr)
		}
	}
}

// relaySession splices an accepted connection with one of the upstream.
type relaySession struct {
	client, upstream net.Conn
}

func (s *relaySession) Run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Relay(s.client, s.upstream)
	}()
	_ = Relay(s.upstream, s.client)
	<-done
	s.client.Close()
	s.upstream.Close()
}

func (s *relaySession) Drain() {}

// lastWord is a server that speaks only after its client has half-closed.
func lastWord(t *testing.T, l net.Listener) {
	t.Cleanup(func() { l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			heard, _ := io.ReadAll(c)
			_, _ = io.WriteString(c, "heard "+string(heard))
		}()
	}
}

func TestHalfCloseThroughTheGateway(t *testing.T) {
	for _, secure := range []bool{false, true} {
		name := "plain"
		if secure {
			name = "tls"
		}
		t.Run(name, func(t *testing.T) { testHalfClose(t, secure) })
	}
}

func testHalfClose(t *testing.T, secure bool) {
	backend, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stats := NewStats("test", "line")
	up, err := endpoint.ParseUpstream(backend.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	front, err := endpoint.ParseUpstream("tcp://localhost", "1")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Stats: stats}
	if secure {
		ca := newTestCA(t)
		s.TLS = ca.serverConfig(t)
		front.TLS = ca.clientConfig(t)
		backend = newTLSListener(backend, ca.serverConfig(t))
		up.TLS = ca.clientConfig(t)
	}
	go lastWord(t, backend)
	s.NewSession = func(c net.Conn) Session {
		u, err := Dial(t.Context(), up, stats)
		if err != nil {
			t.Error(err)
			return nil
		}
		return &relaySession{c, u}
	}
	h := startServer(t, s)
	front.Address, front.Host = h.addr, "127.0.0.1"
	c, err := front.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	said := strings.Repeat("x", 100_000)
	if _, err := io.WriteString(c, said); err != nil {
		t.Fatal(err)
	}
	if err := CloseWrite(c); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "heard "+said {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	wire := stats.Snapshot().Wire
	for name, n := range map[string]uint64{
		"client received": wire.Client.ReceivedBytes, "client sent": wire.Client.SentBytes,
		"upstream received": wire.Upstream.ReceivedBytes, "upstream sent": wire.Upstream.SentBytes,
	} {
		if n < uint64(len(said)) || n > uint64(len(said))+20_000 || (!secure && n > uint64(len(said)+6)) {
			t.Errorf("%s %d bytes, of a conversation of %d", name, n, len(said))
		}
	}
}
