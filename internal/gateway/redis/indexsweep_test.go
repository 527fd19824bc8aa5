package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A sweep reads a limited number of bytes at once, and fields that cannot be decompressed do not hide others.
func TestSweepReadsWithinLimits(t *testing.T) {
	t.Parallel()
	const hashes, damaged, good = 10, 40, 3
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, g := startGateway(t, sock)
	through := clientOf(t, front)
	random := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = '0' + byte(random.IntN(10))
		}
		return string(b)
	}
	for h := range hashes {
		for f := range sweepParts {
			expect(t, through, fmt.Sprintf("HSET h:%d %d %s", h, f, digits(200<<10)), "1")
		}
	}
	for f := range damaged + good { // each with another value, since equal ones are decompressed together
		expect(t, through, fmt.Sprintf("HSET other %d {long}%d", f, f), "1")
		stored := direct.HGet(ctx, "other", fmt.Sprint(f)).Val()
		if !envelope.IsSealed([]byte(stored)) {
			t.Fatalf("field %d is not compressed: %.20q", f, stored)
		}
		if f < damaged {
			stored = stored[:len(stored)-1]
		}
		if err := direct.HSet(ctx, "h:damaged", f, stored).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var seen largestReply
	measured := clientOf(t, sock, func(o *goredis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &measuredConn{Conn: conn, of: &seen}, err
		}
	})
	g.indexes.mu.Lock()
	w := g.indexes.startSweep("h:", measured, false, false)
	g.indexes.mu.Unlock()
	<-w.done
	if w.err != nil || w.inflated != hashes*sweepParts+good || w.failed != damaged {
		t.Errorf("%d fields were decompressed, %d could not be: %v", w.inflated, w.failed, w.err)
	}
	if n := seen.bytes(); n < hashes*sweepRoom(sweepParts) || n > sweepBytes {
		t.Errorf("a reply had %d bytes", n)
	}
}

// A pass ends with its connection: a new one may lead to another process, in which SCAN's cursor would lead past keys.
func TestSweepStaysOnItsConnection(t *testing.T) {
	var swept atomic.Int32
	g := NewGateway(Config{Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		var begun bool
		go testenv.AnswerRedis(far, func(args []string) string {
			switch name := strings.ToUpper(args[0]); {
			case name == "SCAN" && args[1] == "0":
				begun = true
				return "*2\r\n$1\r\n7\r\n*0\r\n"
			case name == "SCAN" && begun:
				return "*2\r\n$1\r\n0\r\n*1\r\n$3\r\nh:1\r\n"
			case name == "SCAN":
				return "*2\r\n$1\r\n0\r\n*0\r\n"
			case name == "EVAL":
				swept.Add(1)
				return "*0\r\n"
			}
			return "-ERR unknown command\r\n"
		})
		return near, nil
	}})
	defer g.indexes.stop()
	o := *g.indexes.client.Options()
	o.ConnMaxLifetime = time.Nanosecond // the pool replaces the connection whenever it can
	c := goredis.NewClient(&o)
	defer c.Close()
	if err := g.indexes.pass(new(sweep), c, "h:", false); err != nil || swept.Load() != 1 {
		t.Errorf("%d hashes were swept, want 1: %v", swept.Load(), err)
	}
}

// largestReply records the largest reply on some connections: the bytes that arrive between two requests.
type largestReply struct {
	mu sync.Mutex
	n  int
}

func (l *largestReply) bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

type measuredConn struct {
	net.Conn
	of *largestReply
	n  int
}

func (m *measuredConn) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.n += n
	m.of.n = max(m.of.n, m.n)
	return n, err
}

func (m *measuredConn) Write(b []byte) (int, error) {
	m.of.mu.Lock()
	m.n = 0
	m.of.mu.Unlock()
	return m.Conn.Write(b)
}

func TestPrefixPattern(t *testing.T) {
	if got := prefixPattern(`a*[b]\?^:`); got != `a\*\[b\]\\\?\^:*` {
		t.Errorf("the pattern is %s", got)
	}
}
