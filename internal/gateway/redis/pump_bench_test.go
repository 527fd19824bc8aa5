package redis

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// feed is a connection that yields the same bytes for a number of reads, and accepts all writes.
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

// BenchmarkPumps measures a pipelined command without system calls.
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
			s.replyPump.run()
		})
	}
}

// BenchmarkNewSession measures an idle client without its connections and goroutines.
func BenchmarkNewSession(b *testing.B) {
	g := NewGateway(Config{})
	client, upstream := socketPair(b)
	b.ReportAllocs()
	for b.Loop() {
		newSession(g, client, upstream, time.Now()).Cancel()
	}
}

// There may be tens of thousands of idle clients, so a session creates rarely used parts on demand.
func TestSessionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(session{}); n > 2048 { // the allocator's next size class is 2304
		t.Errorf("a session has %d bytes", n)
	}
	g := NewGateway(Config{})
	client, upstream := socketPair(t)
	if n := testing.AllocsPerRun(100, func() { newSession(g, client, upstream, time.Now()).Cancel() }); n > 11 && !testenv.RaceDetector {
		t.Errorf("a new session takes %v objects", n)
	}
}

// BenchmarkManyValues measures a request with many values that a rule compresses.
func BenchmarkManyValues(b *testing.B) {
	args := []string{"HSET", "cart:17"}
	for i := range 100 {
		args = append(args, fmt.Sprintf("item:%d", i), strings.Repeat(fmt.Sprintf("a dish of %d things, ", i), 10))
	}
	v := newRewriter(b, codec.Setting{Codec: codec.LZ4})
	n := max(1, b.N)
	g := NewGateway(Config{Policy: v.rules, Stats: v.codec.Stats})
	client := &feed{bytes: resp.AppendCommand(nil, args...), reads: n}
	server := &feed{bytes: []byte(":0\r\n"), reads: n}
	s := newSession(g, client, server, time.Now())
	b.ReportAllocs()
	b.ResetTimer()
	s.pumpRequests()
	s.replyPump.run()
}

// However many arguments its requests had, and however deep a reply was nested, a session that waits for its
// client keeps little memory, and no reference to the buffer of its requests.
func TestIdleSessionKeepsLittle(t *testing.T) {
	many := []string{"MSET"}
	for i := range 800 {
		many = append(many, "k", strings.Repeat("v", 2+118*(i%8/7)))
	}
	for _, test := range []struct {
		name  string
		bytes []byte
		idle  int // number of requests after which the client is idle
	}{
		{"many arguments", resp.AppendCommand(nil, many...), 1},
		{"few arguments behind many", resp.AppendCommand(resp.AppendCommand(nil, many...), "GET", "k"), 2},
		{"few arguments", resp.AppendCommand(nil, "GET", "k"), 1},
	} {
		v := newRewriter(t, codec.Setting{Codec: codec.LZ4})
		client := &feed{bytes: test.bytes, reads: 1}
		server := &feed{bytes: []byte(strings.Repeat("*1\r\n", 3000) + ":1\r\n"), reads: 1}
		s := newSession(NewGateway(Config{Policy: v.rules, Stats: v.codec.Stats}), client, server, time.Now())
		for err := error(nil); err == nil; {
			err = s.next()
		}
		if got := s.upstream.queue.pushed; got != uint64(test.idle) {
			t.Fatalf("%s: %d requests", test.name, got)
		}
		if a, b, c := cap(s.reader.args), cap(s.reader.parser.Args), cap(s.sealedArgs); a > 64 || b > 64 || c > 64 {
			t.Errorf("%s: room is kept for %d, %d and %d arguments", test.name, a, b, c)
		}
		if slices.ContainsFunc(s.reader.args[:cap(s.reader.args)], func(arg []byte) bool { return arg != nil }) {
			t.Errorf("%s: arguments are kept", test.name)
		}
		if s.req.args != nil || s.req.raw != nil {
			t.Errorf("%s: the request is kept", test.name)
		}
		if err := s.replyPump.next(); err != nil {
			t.Fatal(err)
		}
		if n := cap(s.replyPump.copier.path); n > 16 {
			t.Errorf("room is kept for %d levels of a reply", n)
		}
	}
}

// A request whose values are compressed allocates nothing: all its buffers come from the pool or the session.
func TestCompressingAllocatesNothing(t *testing.T) {
	v := newRewriter(t, codec.Setting{Codec: codec.LZ4})
	value := strings.Repeat("words and words, ", 20)
	for _, args := range [][]string{{"SET", "key:1", value}, {"HSET", "key:1", "a", value, "b", value, "c", value, "d", value}} {
		const times = 1000
		g := NewGateway(Config{Policy: v.rules, Stats: v.codec.Stats})
		client := &feed{bytes: resp.AppendCommand(nil, args...), reads: 2 * times}
		server := &feed{bytes: []byte("+OK\r\n"), reads: 2 * times}
		s := newSession(g, client, server, time.Now())
		if n := testing.AllocsPerRun(times, func() {
			for before := s.upstream.queue.pushed; s.upstream.queue.pushed == before; {
				if err := s.next(); err != nil {
					t.Fatal(err)
				}
			}
			if s.upstream.out.Flush() != nil || s.replyPump.next() != nil {
				t.Fatal("an error")
			}
		}); n > 0 && !testenv.RaceDetector {
			t.Errorf("%s: %v allocations", args[0], n)
		}
	}
}

// In steady state a command that passes unchanged allocates nothing, and one with a compressed value at most
// twice, however it is pipelined.
func TestAllocations(t *testing.T) { // not parallel: it counts the allocations of the process
	if testenv.RaceDetector {
		t.Skip("the race detector allocates")
	}
	sock := startServer(t)
	clientOf(t, sock).Set(ctx, "short", "0123456789abcdef", 0)
	value := `{"name": "` + strings.Repeat("sealed value ", 60) + `"}`
	plain := func(c *Config) { c.Policy = nil }
	for _, test := range []struct {
		name   string
		change func(*Config)
		depth  int
		args   []string
		most   float64
	}{
		{"GET passes", plain, 1, []string{"GET", "short"}, 0},
		{"GET passes, pipelined", plain, 16, []string{"GET", "short"}, 0},
		{"SET passes", plain, 1, []string{"SET", "short", "0123456789abcdef"}, 0},
		{"SET passes, pipelined", plain, 16, []string{"SET", "short", "0123456789abcdef"}, 0},
		{"SET of 16 KB passes", plain, 4, []string{"SET", "long", strings.Repeat("x", 16<<10)}, 0},
		{"GET passes under rules", func(*Config) {}, 1, []string{"GET", "short"}, 0},
		{"GET passes under rules, pipelined", func(*Config) {}, 16, []string{"GET", "short"}, 0},
		{"SET is left under rules, pipelined", func(*Config) {}, 16, []string{"SET", "short", "0123456789abcdef"}, 0},
		{"INCR passes under rules", func(*Config) {}, 16, []string{"INCR", "n"}, 0},
		{"SET is sealed", func(*Config) {}, 1, []string{"SET", "sealed", value}, 2},
		{"SET is sealed, pipelined", func(*Config) {}, 16, []string{"SET", "sealed", value}, 2},
		{"GET is opened", func(*Config) {}, 1, []string{"GET", "sealed"}, 2},
		{"GET is opened, pipelined", func(*Config) {}, 16, []string{"GET", "sealed"}, 2},
	} {
		front, _ := startGateway(t, sock, test.change)
		c := dialRaw(t, front)
		n := allocsPerCommand(t, c, test.depth, test.args...)
		for tries := 0; n > test.most+0.1 && tries < 4; tries++ { // other parts of the process allocate, too
			n = min(n, allocsPerCommand(t, c, test.depth, test.args...))
		}
		if n > test.most+0.1 {
			t.Errorf("%s: %.2f allocations, at most %v are allowed", test.name, n, test.most)
		}
	}
}

// allocsPerCommand sends the command in pipelines and returns the allocations of the process per command. The
// garbage collector is off, since it empties pools.
func allocsPerCommand(t *testing.T, c net.Conn, depth int, args ...string) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const rounds = 400
	one := resp.AppendCommand(nil, args...)
	batch := bytes.Repeat(one, depth)
	write(t, c, string(one))
	reply := make([]byte, 64<<10)
	n, err := c.Read(reply)
	if err != nil {
		t.Fatal(err)
	}
	for args[0] == "GET" && n < replyBytes(reply[:n]) {
		k, err := c.Read(reply[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	all := make([]byte, n*depth)
	round := func() {
		if _, err := c.Write(batch); err != nil {
			t.Fatal(err)
		}
		if args[0] == "INCR" { // its replies get longer, so count lines
			all = all[:0]
			for lines := 0; lines < depth; {
				n, err := c.Read(reply)
				if err != nil {
					t.Fatal(err)
				}
				lines += bytes.Count(reply[:n], []byte("\n"))
			}
			return
		}
		if _, err := io.ReadFull(c, all); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		round()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(rounds*depth)
}

// replyBytes returns the length of the bulk string at the beginning of b.
func replyBytes(b []byte) int {
	line, _, _ := bytes.Cut(b[1:], []byte("\r\n"))
	n, _ := strconv.Atoi(string(line))
	return 1 + len(line) + 2 + n + 2
}
