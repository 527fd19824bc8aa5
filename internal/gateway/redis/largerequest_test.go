package redis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Arguments in front of a stored value or behind it take budget too, however short the value is.
func TestLongOptionsTakeBudget(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, g := startGateway(t, sock, func(c *Config) { c.Requests, c.Stall = memory.NewBudget(3<<20), 10*time.Millisecond })
	defer useUp(t, g)()
	option := strings.Repeat("x", 1<<20)
	for _, args := range [][]string{
		{"SET", "k", "v", option, option, option},
		{"SET", option, "v", option, option},
		{"SETEX", option, option, "v"},
		{"XADD", option, "MAXLEN", option, "*", "f", "v"},
	} {
		c := dialRaw(t, front)
		go func() { _, _ = c.Write(resp.AppendCommand(nil, args...)) }()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, "no memory is free") {
			t.Errorf("%s: %.60q, %v", args[0], line, err)
		}
		write(t, c, "PING\r\n")
		readExactly(t, c, "+PONG\r\n")
	}
	if n := g.cfg.Requests.InUse(); n != usedUp {
		t.Errorf("%d bytes of the budget are still taken", n-usedUp)
	}
}

const usedUp = 64 << 20

// useUp takes the whole request budget, and the turn of the one account that may exceed it.
func useUp(t *testing.T, g *Gateway) (giveBack func()) {
	t.Helper()
	a := g.requests.Account(nil, nil)
	if err := a.Acquire(t.Context(), usedUp); err != nil {
		t.Fatal(err)
	}
	return a.Close
}

// A request that breaks the protocol in the middle reaches the server whole, and the client gets the server's answer.
func TestProtocolErrorBeforeValues(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, _ := startGateway(t, sock)
	request := resp.AppendCommand(nil, "XADD", "k", "MAXLEN", strings.Repeat("x", 2*bufferBytes))
	request = append(bytes.Replace(request, []byte("*4"), []byte("*7"), 1), ":1\r\n"...)
	want, err := answerTo(t, sock, request)
	if got, e := answerTo(t, front, request); err != nil || e != nil || got != want {
		t.Errorf("%q, %v; want %q, %v", got, e, want, err)
	}
}

// A request that breaks the protocol behind arguments that were sent already reaches the server byte for byte, with the
// header that breaks it.
func TestBrokenHeadersReachTheServer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", bufferBytes)
	for _, header := range []string{"$1099511627777\r\n", "$9223372036854775807\r\n", "$-1\r\n", ":1\r\n"} {
		for _, begin := range []string{"*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n" + bulk(long), "*4\r\n$4\r\nECHO\r\n" + bulk(long)} {
			client, server := slowly(t, func(*Config) {})
			request := begin + header + "$1\r\nv\r\n"
			go func() { _, _ = client.Write([]byte(request)) }()
			_ = server.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			got := make([]byte, len(request))
			if n, err := io.ReadFull(server.in, got); err != nil || string(got) != request {
				t.Errorf("%q: the server got …%q, %v", header, got[max(0, n-30):n], err)
			}
			server.say("-ERR Protocol error\r\n")
			readExactly(t, client, "-ERR Protocol error\r\n")
		}
	}
}

// If the beginning of the request was discarded, the server gets another array header in its place. Otherwise it would
// take the bad header for an inline command, and run the lines behind it.
func TestBrokenHeaderOfADiscardedRequest(t *testing.T) {
	t.Parallel()
	client, server := slowly(t, func(*Config) {})
	request := fmt.Sprintf("*%d\r\n", maxCollectedArgs+1) + "$4\r\nSORT\r\n$1\r\nl\r\n" + bulk(strings.Repeat("x", bufferBytes))
	go func() { _, _ = client.Write([]byte(request + ":1\r\nPING\r\n")) }()
	const want = "*1\r\n:1\r\nPING\r\n"
	_ = server.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(server.in, got); err != nil || string(got) != want {
		t.Errorf("the server got %q, %v", got[:n], err)
	}
}

func answerTo(t *testing.T, sock string, request []byte) (string, error) {
	t.Helper()
	c := dialRaw(t, sock)
	write(t, c, string(request))
	return bufio.NewReader(c).ReadString('\n')
}

// A refused request holds no memory while its end arrives, even if part of it was compressed already.
func TestRefusedRequestHoldsNothing(t *testing.T) { // not parallel: it measures the memory of the process
	sock := startServer(t)
	front, g := startGateway(t, sock)
	const n = 24 << 20
	head := append(resp.AppendArray(nil, 4), resp.AppendCommand(nil, "SET", "k", aheadValues(n)["text"])[len("*3\r\n"):]...)
	before := heapBytes()
	c := dialRaw(t, front)
	write(t, c, string(head))
	for g.cfg.Requests.InUse() <= 2*n {
		time.Sleep(time.Millisecond)
	}
	write(t, c, "$1073741824\r\nand so on")
	for g.cfg.Requests.InUse() != 0 {
		time.Sleep(time.Millisecond)
	}
	if now := heapBytes(); now > before+n/2 {
		t.Errorf("%d bytes are held", now-before)
	}
	runtime.KeepAlive(head)
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC() // pools keep their buffers for one more collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Values that are decompressed in place for a command take budget. Finding out that a value is not compressed
// does not fetch it.
func TestInflatingTakesBudget(t *testing.T) { // not parallel: it measures the memory of the process
	sock := startServer(t)
	const n = 3 << 20
	front, g := startGateway(t, sock, func(c *Config) {
		c.Requests, c.Replies, c.Stall = memory.NewBudget(2<<20), memory.NewBudget(64<<20), 10*time.Millisecond
	})
	value := strings.Repeat(long, n/len(long)+1)[:n]
	sealed := g.codec.Sealer.Seal(nil, []byte(value), codec.Setting{Codec: codec.Zstd, Level: 3}, nil)
	direct, c := clientOf(t, sock), clientOf(t, front)
	for _, words := range []string{
		"APPEND k x", "SETRANGE k 0 x", "INCRBYFLOAT k 1", "LCS k k LEN", "EVAL return(redis.call('STRLEN',KEYS[1])) 1 k", "EVAL return(redis.call('HSTRLEN',KEYS[1],'f')) 1 h", "SORT l BY k*",
	} {
		direct.Del(ctx, "h", "l")
		direct.Set(ctx, "k", sealed, 0)
		direct.HSet(ctx, "h", "f", sealed)
		direct.RPush(ctx, "l", "", "1")
		giveBack := useUp(t, g)
		for _, inside := range []string{"", "WATCH x", "MULTI"} {
			conn := c.Conn()
			got := run(conn, inside, words)
			if !strings.HasPrefix(got, "error: ERR cinch: no memory is free") {
				t.Errorf("%s %s: %.100q", inside, words, got)
			}
			do(conn, "RESET")
			_ = conn.Close()
		}
		giveBack()
	}
	if used := g.cfg.Requests.Use(); used.InUse != 0 {
		t.Errorf("%d bytes of the budget are still taken", used.InUse)
	}
	direct.Set(ctx, "p", bytes.Repeat([]byte("p"), 32<<20), 0)
	before := totalBytes()
	conn := c.Conn()
	defer conn.Close()
	expect(t, conn, "STRLEN p", "33554432", "MULTI", "OK", "STRLEN p", "QUEUED", "SETBIT p 0 0", "QUEUED", "EVAL return(1) 1 p", "QUEUED", "EXEC", "[33554432 0 1]")
	if more := totalBytes() - before; more > 16<<20 {
		t.Errorf("%d bytes to look at a value that is not sealed", more)
	}
}

func totalBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// recordingHandler records the request that a large collects and passes on.
type recordingHandler struct{ collected [][]byte }

func (d *recordingHandler) handleCollected(args [][]byte) error { d.collected = args; return nil }
func (*recordingHandler) failWith(text string) error            { return errors.New(text) }
func (*recordingHandler) passProtocolError() error              { return resp.ErrProtocol }

// largely passes a request to a large, which handles it. The beginning of the request fills the buffer.
func (p *sessionParts) largely(words ...string) *recordingHandler {
	p.t.Helper()
	go func() { _, _ = p.client.Write(resp.AppendCommand(nil, words...)) }()
	in, d := new(requestReader), new(recordingHandler)
	in.init(&p.upstream, newTable())
	l := large{reader: in, upstream: &p.upstream, rewriter: &valueRewriter{codec: p.codec, rules: p.codec.rules(), state: &p.upstream.state}, decoded: &p.decoded, handler: d}
	for !in.isLarge() {
		if _, err := in.parser.Parse(in.in.Buffered()); err != nil {
			p.t.Fatal(err)
		}
		if in.isLarge() {
			break
		}
		if err := in.in.Fill(); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := l.request(); err != nil {
		p.t.Fatal(err)
	}
	return d
}

func TestLargeRequestsByTheirRows(t *testing.T) {
	long := strings.Repeat("a long value ", 4000)
	for name, test := range map[string]struct {
		words     []string
		collected bool
		sealed    []int // arguments that are compressed
	}{
		"no value arguments": {words: []string{"ECHO", long}},
		"value by value":     {words: []string{"MSET", "k1", long, "other", long, "k2", long}, sealed: []int{2, 6}},
		"no rule":            {words: []string{"SET", "other", long}},
		"computed on":        {words: []string{"APPEND", "k1", long}, collected: true},
		"stored and known":   {words: []string{"SET", "k1", long, "EX", "10"}, collected: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParts(t)
			d := p.largely(test.words...)
			if got := d.collected != nil; got != test.collected {
				t.Fatalf("collected: %v", got)
			}
			if test.collected {
				for i, word := range test.words {
					if string(d.collected[i]) != word {
						t.Errorf("argument %d has %d bytes, want %d", i, len(d.collected[i]), len(word))
					}
				}
				return
			}
			for i, got := range p.words(1)[0] {
				switch {
				case slices.Contains(test.sealed, i):
					if !strings.HasPrefix(got, envelope.Magic) {
						t.Errorf("argument %d is not sealed", i)
					}
				case got != test.words[i]:
					t.Errorf("argument %d is another", i)
				}
			}
		})
	}
}

// The budget that a large request has taken is released with it.
func TestLargeRequestsHoldNothing(t *testing.T) {
	p := newParts(t)
	p.largely("APPEND", "k1", strings.Repeat("x", 200<<10))
	if !p.life.Requests.TryAcquire(1 << 17) {
		t.Error("memory is missing")
	}
}
