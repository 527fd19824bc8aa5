package redis

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// Each read of a part of a key is limited in bytes, not only in elements.
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
	// Most fields are short, so MEMORY USAGE with few samples reports that the whole hash is small.
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

func readAll(t testing.TB, s *Space, o store.ReadOptions, keys ...string) (values map[string]string, skipped map[string]store.Reason) {
	t.Helper()
	values, skipped = map[string]string{}, map[string]store.Reason{}
	var list [][]byte
	for _, k := range keys {
		list = append(list, []byte(k))
	}
	must(t, s.Read(context.Background(), list, o, func(v *store.Value) error {
		name := string(v.Key)
		if v.Field != nil {
			name += "." + string(v.Field)
		}
		if v.Skip != "" {
			skipped[name] = v.Skip
		} else {
			values[name] += string(v.Stored)
		}
		return nil
	}))
	return values, skipped
}

func TestRead(t *testing.T) {
	s, c := openSpace(t, testenv.Redis(t), "")
	ctx := t.Context()
	want := map[string]string{}
	var keys []string
	set := func(key, value string) {
		must(t, c.Set(ctx, key, value, 0).Err())
		want[key], keys = value, append(keys, key)
	}
	set("short", "v\x00\r\n")
	set("int", "42")
	for _, n := range []int{headBytes - 1, headBytes, headBytes + 1, batchBytes - 1, batchBytes + 1} {
		set(fmt.Sprint("long", n), strings.Repeat("abcdefg", n)[:n])
	}
	many := make([]any, 0, 4000)
	for i := range 2000 {
		many = append(many, fmt.Sprint("f", i), fmt.Sprint("v", i))
		want[fmt.Sprint("many.f", i)] = fmt.Sprint("v", i)
	}
	must(t, c.HSet(ctx, "many", many...).Err())
	must(t, c.HSet(ctx, "hash", "f", "v", "", "empty name").Err())
	want["hash.f"], want["hash."] = "v", "empty name"
	for i := range 300 {
		must(t, c.Do(ctx, "xadd", "stream", "*", "f", "a", "f", fmt.Sprint(i)).Err())
		want["stream.f"] += "a" + fmt.Sprint(i)
	}
	must(t, c.LPush(ctx, "list", "x").Err())
	must(t, c.Set(ctx, "empty", "", 0).Err())
	all := append(keys, "many", "hash", "stream", "list", "empty", "gone")
	values, skipped := readAll(t, s, store.ReadOptions{Types: store.String | store.Hash | store.Stream}, all...)
	if !maps.Equal(values, want) {
		t.Errorf("%d values, want %d, or others", len(values), len(want))
	}
	if !maps.Equal(skipped, map[string]store.Reason{"list": store.OtherType, "empty": store.Gone, "gone": store.Gone}) {
		t.Errorf("skipped: %v", skipped)
	}

	values, skipped = readAll(t, s, store.ReadOptions{Types: store.String | store.Hash, MaxBytes: headBytes}, all...)
	if len(values) != 2+2+2000+2 || skipped[fmt.Sprint("long", headBytes+1)] != store.TooLarge || skipped["stream"] != store.Immutable {
		t.Errorf("%d values, skipped: %v", len(values), skipped)
	}
	values, _ = readAll(t, s, store.ReadOptions{Types: store.Hash}, all...)
	if len(values) != 2002 {
		t.Errorf("%d values of hashes", len(values))
	}
}

func TestReadLeavesHotKeys(t *testing.T) {
	server := testenv.Redis(t)
	s, c := openSpace(t, server, "")
	ctx := t.Context()
	must(t, c.MSet(ctx, "hot", "v", "cold", "v").Err())
	dump := c.Dump(ctx, "cold").Val()
	must(t, c.Do(ctx, "restore", "cold", 0, dump, "replace", "idletime", 1000).Err())
	o := store.ReadOptions{Types: store.String, IdleBelow: 10 * time.Minute}
	values, skipped := readAll(t, s, o, "hot", "cold", "gone")
	if !slices.Equal(slices.Collect(maps.Keys(values)), []string{"cold"}) || skipped["hot"] != store.Hot || skipped["gone"] != store.Gone {
		t.Errorf("read %v, skipped %v", values, skipped)
	}
	must(t, c.ConfigSet(ctx, "maxmemory-policy", "allkeys-lfu").Err())
	must(t, c.Do(ctx, "restore", "hot", 0, dump, "replace", "freq", 200).Err())
	must(t, c.Do(ctx, "restore", "cold", 0, dump, "replace", "freq", 5).Err())
	values, skipped = readAll(t, s, store.ReadOptions{Types: store.String, FreqAbove: 100}, "hot", "cold")
	if len(values) != 1 || skipped["hot"] != store.Hot {
		t.Errorf("read %v, skipped %v", values, skipped)
	}
	err := s.Read(ctx, [][]byte{[]byte("hot")}, o, func(*store.Value) error { return nil })
	if err == nil || Unavailable(err) {
		t.Errorf("idle times on a server that keeps none: %v", err)
	}
}
