package redis

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
	"unsafe"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// feed is a connection that has the same bytes ready for a number of reads, and takes anything.
type feed struct {
	net.Conn
	bytes []byte
	at    int
	reads int
}

func (f *feed) Read(p []byte) (int, error) {
	if f.reads == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.bytes[f.at:])
	if f.at += n; f.at == len(f.bytes) {
		f.at = 0
		f.reads--
	}
	return n, nil
}

func (f *feed) Write(p []byte) (int, error) { return len(p), nil }
func (f *feed) Close() error                { return nil }
func (f *feed) LocalAddr() net.Addr         { return &net.TCPAddr{} }
func (f *feed) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// BenchmarkPumps is what a command of a pipeline costs beside system calls.
func BenchmarkPumps(b *testing.B) {
	const depth = 10
	for _, test := range []struct {
		name  string
		args  []string
		reply string
	}{
		{"SET", []string{"SET", "key:000000000123", "xxxxxxxxxxxxxxxx"}, "+OK\r\n"},
		{"GET", []string{"GET", "key:000000000123"}, "$16\r\nxxxxxxxxxxxxxxxx\r\n"},
	} {
		b.Run(test.name, func(b *testing.B) {
			n := max(1, b.N/depth)
			g := NewGateway(Config{})
			client := &feed{bytes: bytes.Repeat(resp.AppendCommand(nil, test.args...), depth), reads: n}
			server := &feed{bytes: bytes.Repeat([]byte(test.reply), depth), reads: n}
			s := newSession(g, client, server, time.Now())
			b.ReportAllocs()
			b.ResetTimer()
			s.pumpRequests()
			s.out.run()
		})
	}
}

// BenchmarkNewSession is what an idle client costs beside its connections and goroutines.
func BenchmarkNewSession(b *testing.B) {
	g := NewGateway(Config{})
	client, upstream := socketPair(b)
	b.ReportAllocs()
	for b.Loop() {
		newSession(g, client, upstream, time.Now()).Cancel()
	}
}

// There may be tens of thousands of clients that do nothing: what is rare is made when it is needed.
func TestSessionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(session{}); n > 2048 { // the next class of the allocator has 2304
		t.Errorf("a session has %d bytes", n)
	}
	g := NewGateway(Config{})
	client, upstream := socketPair(t)
	if n := testing.AllocsPerRun(100, func() { newSession(g, client, upstream, time.Now()).Cancel() }); n > 11 && !raceEnabled {
		t.Errorf("a new session takes %v objects", n)
	}
}
