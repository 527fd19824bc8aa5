package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
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
