package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
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

func TestReadFirst(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn, *Stats) net.Conn{
		"counted": func(c net.Conn, s *Stats) net.Conn { return newConn(c, s.side(sideClient)) },
		"bare":    func(c net.Conn, _ *Stats) net.Conn { return c },
	} {
		t.Run(name, func(t *testing.T) {
			stats := NewStats("test", "line")
			a, b := tcpPair(t)
			c := wrap(b, stats)
			said := bytes.Repeat([]byte("0123456789"), 5000)
			go func() {
				_, _ = a.Write(said)
				_ = CloseWrite(a)
			}()
			got := readAllFirst(t, c)
			if !bytes.Equal(got, said) {
				t.Errorf("read %d bytes of %d, or others", len(got), len(said))
			}
			if n := stats.Snapshot().Wire.Client.ReceivedBytes; name == "counted" && n != uint64(len(said)) {
				t.Errorf("counted %d bytes of %d", n, len(said))
			}
		})
	}
}

// readAllFirst reads to EOF, with ReadFirst only.
func readAllFirst(t *testing.T, c net.Conn) []byte {
	t.Helper()
	var all []byte
	for {
		buf, n, err := ReadFirst(c, 4096)
		if errors.Is(err, io.EOF) && buf == nil && n == 0 {
			return all
		}
		if err != nil || n == 0 || len(buf) < 4096 {
			t.Fatalf("%d bytes in a buffer of %d, %v", n, len(buf), err)
		}
		all = append(all, buf[:n]...)
		memory.PutBuffer(buf)
	}
}

// ReadNext uses the spare buffer for bytes that are there, and puts it back when there are none.
func TestReadNext(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(b, nil)
	for _, there := range []bool{true, false, true} {
		spare := memory.GetBuffer(4096)[:4096]
		if there {
			writeAll(t, a, "hello")
			awaitBytes(t, b)
		} else {
			time.AfterFunc(50*time.Millisecond, func() { _, _ = a.Write([]byte("hello")) })
		}
		buf, n, err := ReadNext(c, spare, 4096)
		if err != nil || string(buf[:n]) != "hello" || len(buf) < 4096 {
			t.Fatalf("%q in a buffer of %d, %v", buf[:n], len(buf), err)
		}
		if there && &buf[0] != &spare[0] {
			t.Error("bytes that were there are in another buffer")
		}
		memory.PutBuffer(buf)
	}
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if buf, n, err := ReadNext(c, memory.GetBuffer(4096)[:4096], 4096); buf != nil || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %d bytes, %v", n, err)
	}
}

func writeAll(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// awaitBytes returns when c has something to read.
func awaitBytes(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return n > 0 || err != syscall.EAGAIN
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadFirstEndsAtDeadlineAndClose(t *testing.T) {
	_, b := tcpPair(t)
	c := newConn(b, nil)
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if buf, _, err := ReadFirst(c, 10); buf != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	result := make(chan error, 1)
	go func() {
		_, _, err := ReadFirst(c, 10)
		result <- err
	}()
	c.Close()
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Errorf("close: %v", err)
	}
}

// Errors of system calls name the network of the socket.
func TestUnixSocketErrors(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := make([]byte, 10)
	for name, test := range map[string]struct {
		call func(c net.Conn) error
		want string
	}{
		"ReadFirst":         {func(c net.Conn) error { _, _, err := ReadFirst(c, 10); return err }, "read unix: read: "},
		"ReadReady":         {func(c net.Conn) error { _, err := ReadReady(c, p); return err }, "read unix: read: "},
		"DirectReader":      {func(c net.Conn) error { _, err := NewDirectReader(c).Read(p); return err }, "read unix: read: "},
		"NonblockingWriter": {func(c net.Conn) error { _, err := NewNonblockingWriter(c).Write(p); return err }, "write unix: write: "},
		"DirectWriter":      {func(c net.Conn) error { _, err := NewDirectWriter(c).Write(p); return err }, "write unix: write: "},
	} {
		peer, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(raw, nil)
		writeAll(t, c, "unread") // so that closing the peer resets the connection
		peer.Close()
		if err := test.call(c); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

// A DirectWriter waits for a peer that takes its time, until its deadline, and counts all bytes.
func TestDirectWriter(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(b, &traffic{})
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than the system's buffers hold
	wrote := make(chan error, 1)
	go func() {
		w := NewDirectWriter(c)
		for rest := want; len(rest) > 0; {
			n, err := w.Write(rest[:min(len(rest), 10_000)])
			if err != nil {
				wrote <- err
				return
			}
			rest = rest[n:]
		}
		wrote <- c.CloseWrite()
	}()
	got, err := io.ReadAll(a)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes, or others: %v", len(got), len(want), err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if n := c.traffic.sent.Load(); n != uint64(len(want)) {
		t.Errorf("counted %d of %d bytes", n, len(want))
	}
}

func TestDirectWriterEndsAtDeadlineAndClose(t *testing.T) {
	_, b := tcpPair(t)
	c := newConn(b, nil)
	w := NewDirectWriter(c)
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	var err error
	for p := make([]byte, 10_000); err == nil; { // the peer reads nothing
		_, err = w.Write(p)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	c.Close()
	if _, err := w.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("close: %v", err)
	}
}

// A connection without a socket of its own is written to as before.
func TestDirectWriterWithoutSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if w := NewDirectWriter(a); w != a {
		t.Errorf("%T", w)
	}
}

// A TLS connection buffers bytes, so they may be in memory already.
func TestReadFirstOverTLS(t *testing.T) {
	ca := newTestCA(t)
	h := startServer(t, &Server{TLS: ca.serverConfig(t)})
	c := mustDialTLS(t, h.addr, ca.clientConfig(t))
	defer c.Close()
	line := append(bytes.Repeat([]byte("x"), 20_000), '\n')
	if _, err := c.Write(line); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for len(got) < len(line) {
		buf, n, err := ReadFirst(c, 4096)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
		memory.PutBuffer(buf)
	}
	if !bytes.Equal(got, line) {
		t.Error("other bytes")
	}
}
