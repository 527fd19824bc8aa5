package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestNextStep(t *testing.T) {
	for _, c := range []struct{ step, size, want int64 }{
		{16, 0, 128},
		{128, 1, maxStep},
		{maxStep, 1, maxStep}, // small ones
		{16, batchBytes/8 - 1, 128},
		{16, batchBytes / 8, 128},
		{16, batchBytes/8 + 1, 127},
		{16, batchBytes - 1, 16},
		{16, batchBytes, 16},
		{16, batchBytes + 1, 15},
		{16, 8*batchBytes + 1, 1},
		{16, 17 * batchBytes, 1},
		{1, 512 << 20, 1},
		{maxStep, maxStep * 512 << 20, 1},
	} {
		if got := nextStep(c.step, c.size); got != c.want {
			t.Errorf("%d after a step of %d with %d bytes, want %d", got, c.step, c.size, c.want)
		}
	}
}

// What is read of a key at once has a limit in bytes, and not only in elements.
func TestRepliesHaveALimit(t *testing.T) {
	const elements, size = 60, 256 << 10
	server := testenv.Redis(t)
	c := connect(t, goredis.Options{Addr: server.Addr})
	for i := range elements {
		v := fmt.Sprintf("%-*d", size, i)
		p := c.Pipeline()
		p.RPush(t.Context(), "list", v)
		p.SAdd(t.Context(), "set", v)
		p.ZAdd(t.Context(), "zset", goredis.Z{Member: v})
		p.HSet(t.Context(), "hash", i, v)
		p.XAdd(t.Context(), &goredis.XAddArgs{Stream: "stream", Values: []any{"f", v}})
		_, err := p.Exec(t.Context())
		must(t, err)
	}
	// Most fields are short, so a small sample says that these hashes are.
	for key := range 3 {
		for i := range 200 {
			v := "short"
			if i >= 196 {
				v = strings.Repeat("x", 3*batchBytes/8)
			}
			must(t, c.HSet(t.Context(), fmt.Sprint("uneven:", key), fmt.Sprint(i), v).Err())
		}
	}
	var seen replies
	o := goredis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1, Dialer: seen.dial}
	counts, err := Count(t.Context(), &o)
	must(t, err)
	if counts.Keys != 8 || seen.largest < batchBytes || seen.largest > 2*batchBytes {
		t.Errorf("%d keys were counted, in replies of at most %d bytes", counts.Keys, seen.largest)
	}
	seen = replies{}
	s, err := Open(t.Context(), OpenOptions{Client: o, DBs: []int{0}})
	must(t, err)
	defer s.Close()
	read := func(keys ...string) (n int) {
		var names [][]byte
		for _, k := range keys {
			names = append(names, []byte(k))
		}
		must(t, s.Nodes()[0].Spaces()[0].Read(t.Context(), names, store.ReadOptions{Types: store.String | store.Hash | store.Stream}, func(v *store.Value) error {
			if v.Skip == "" {
				n++
			}
			return nil
		}))
		return n
	}
	if n := read("stream", "hash"); n != 2*elements || seen.largest < batchBytes/2 || seen.largest > 2*batchBytes {
		t.Errorf("%d values were read, in replies of at most %d bytes", n, seen.largest)
	}
	if n := read("uneven:0", "uneven:1", "uneven:2"); n != 600 || seen.whole > 0 {
		t.Errorf("%d values were read, with %d times HGETALL", n, seen.whole)
	}
}

// replies measures the replies on some connections.
type replies struct {
	mu      sync.Mutex
	largest int // bytes between two requests
	whole   int // HGETALL requests
}

func (r *replies) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	return &measured{Conn: c, of: r}, err
}

type measured struct {
	net.Conn
	of   *replies
	size int
}

func (m *measured) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.size += n
	m.of.largest = max(m.of.largest, m.size)
	return n, err
}

func (m *measured) Write(b []byte) (int, error) {
	m.of.mu.Lock()
	m.size = 0
	m.of.whole += bytes.Count(bytes.ToLower(b), []byte("\r\nhgetall\r\n"))
	m.of.mu.Unlock()
	return m.Conn.Write(b)
}
