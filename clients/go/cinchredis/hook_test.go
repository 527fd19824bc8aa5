package cinchredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy/published"
)

const (
	content = `{"id": 1, "name": "Margherita", "price": 7.5, "available": true, "toppings": ["tomato", "mozzarella", "basil"]}`
	menu    = `{"id": 77, "name": "Marinara", "price": 6.5, "available": true, "toppings": ["tomato", "garlic", "oregano"], "note": "seventy-seven"}`
	record  = "00112233aabbccdd"
)

type object = map[string]any

var rules = []object{
	{"name": "notes", "key": "note:*", "types": []string{"string", "hash"}, "min_size": 64, "min_gain": 0.1, "codec": "raw"},
	{"name": "peeled", "key": "web:*", "types": []string{"string", "hash"}, "min_size": 1, "min_gain": published.Disabled, "codec": "zstd", "level": 1},
	{"name": "menus", "key": "menu:*", "types": []string{"string", "hash", "stream"}, "min_size": 64, "min_gain": 0.1, "codec": "zstd", "level": 3, "record": record},
}

// withPolicy starts a server with a policy and a dictionary.
func withPolicy(t testing.TB) (*server, *codec.Dict) {
	t.Helper()
	s := startRedis(t)
	d := s.hold(t, strings.Repeat(content, 3))
	s.publish(t, "policy", object{"format": 1, "rules": rules, "exclude": []string{"lock:*"}})
	s.inForce(t, d)
	return s, d
}

func (s *server) inForce(t testing.TB, d *codec.Dict) {
	s.publish(t, record, object{"rule": "menus", "current": object{"dict": hex(d.Number())}})
}

// isStored fails unless stored is an envelope of the menu with the dictionary of that number (0: none).
func isStored(t testing.TB, stored string, number uint32) {
	t.Helper()
	h, err := envelope.ParseHeader([]byte(stored))
	if err != nil || h.Dict != number || h.RawLen != len(menu) {
		t.Errorf("%v, dictionary %08x, %d bytes; want %08x, %d", err, h.Dict, h.RawLen, number, len(menu))
	}
}

// Every command that writes a value seals it, and every command that reads it opens it, as single commands,
// in pipelines and in transactions.
func TestCommands(t *testing.T) {
	s, d := withPolicy(t)
	for _, protocol := range []int{2, 3} {
		c := newClient(t, &redis.Options{Addr: s.addr, Protocol: protocol})
		must(t, Attach(t.Context(), c, Options{}))
		for name, with := range map[string]func(func(redis.Cmdable)){
			"single":      func(do func(redis.Cmdable)) { do(c) },
			"pipeline":    func(do func(redis.Cmdable)) { p := c.Pipeline(); do(p); runAll(t, p) },
			"transaction": func(do func(redis.Cmdable)) { p := c.TxPipeline(); do(p); runAll(t, p) },
			"connection":  func(do func(redis.Cmdable)) { conn := c.Conn(); do(conn); _ = conn.Close() },
			"watched": func(do func(redis.Cmdable)) {
				must(t, c.Watch(t.Context(), func(tx *redis.Tx) error { do(tx); return nil }, "menu:watched"))
			},
		} {
			t.Run(fmt.Sprint(name, protocol), func(t *testing.T) {
				must(t, s.plain.FlushAll(t.Context()).Err())
				tryCommands(t, s, d, with)
			})
		}
	}
}

func runAll(t *testing.T, p redis.Pipeliner) {
	t.Helper()
	if _, err := p.Exec(t.Context()); err != nil && !errors.Is(err, redis.Nil) {
		t.Error(err)
	}
}

func tryCommands(t *testing.T, s *server, d *codec.Dict, with func(func(redis.Cmdable))) {
	ctx := t.Context()
	var written []redis.Cmder
	shared := []any{"SET", "menu:do", menu}
	with(func(c redis.Cmdable) {
		written = []redis.Cmder{
			c.Set(ctx, "menu:set", menu, 0), c.Set(ctx, "menu:bytes", []byte(menu), time.Hour), c.SetEx(ctx, "menu:setex", menu, time.Hour),
			c.SetNX(ctx, "menu:setnx", menu, time.Hour), c.SetXX(ctx, "menu:set", menu, 0), c.SetArgs(ctx, "menu:args", menu, redis.SetArgs{TTL: time.Hour}),
			c.MSet(ctx, "menu:mset", menu, "note:1", menu, "other", menu), c.MSetNX(ctx, "menu:msetnx", menu),
			c.GetSet(ctx, "menu:set", menu), c.SetFromBuffer(ctx, "menu:buffer", []byte(menu)),
			c.HSet(ctx, "menu:h", "a", menu, "b", "short"), c.HMSet(ctx, "menu:h", object{"c": menu}), c.HSetNX(ctx, "menu:h", "d", menu),
			c.XAdd(ctx, &redis.XAddArgs{Stream: "menu:s", MaxLen: 10, Approx: true, Values: []any{"m", menu}}),
			c.Set(ctx, "menu:n", 123456, 0), c.Incr(ctx, "menu:n"), c.Set(ctx, "lock:1", menu, 0),
		}
		if do, ok := c.(interface {
			Do(ctx context.Context, args ...any) *redis.Cmd
		}); ok {
			written = append(written, do.Do(ctx, shared...))
		} else {
			written = append(written, c.Set(ctx, "menu:do", menu, 0))
		}
	})
	for _, cmd := range written {
		if cmd.Err() != nil {
			t.Errorf("%s: %v", cmd.Name(), cmd.Err())
		}
	}
	if shared[2] != menu {
		t.Error("the caller's arguments were changed")
	}
	if got := written[8].(*redis.StringCmd).Val(); got != menu {
		t.Errorf("GETSET: %q", got)
	}
	if got := written[15].(*redis.IntCmd).Val(); got != 123457 {
		t.Errorf("INCR: %d", got)
	}
	keys := []string{"menu:set", "menu:bytes", "menu:setex", "menu:setnx", "menu:args", "menu:mset", "menu:msetnx", "menu:buffer", "menu:do"}
	for _, key := range keys {
		isStored(t, s.plain.Get(ctx, key).Val(), d.Number())
	}
	for _, field := range []string{"a", "c", "d"} {
		isStored(t, s.plain.HGet(ctx, "menu:h", field).Val(), d.Number())
	}
	isStored(t, s.plain.XRange(ctx, "menu:s", "-", "+").Val()[0].Values["m"].(string), d.Number())
	for _, key := range []string{"note:1", "other", "lock:1"} {
		if got := s.plain.Get(ctx, key).Val(); got != menu {
			t.Errorf("%s is sealed", key)
		}
	}
	tryReplies(t, with)
}

func tryReplies(t *testing.T, with func(func(redis.Cmdable))) {
	ctx := t.Context()
	checks := map[string]func() bool{}
	with(func(c redis.Cmdable) {
		get, mget, all := c.Get(ctx, "menu:set"), c.MGet(ctx, "menu:set", "nothing", "other"), c.HGetAll(ctx, "menu:h")
		checks["GET"] = func() bool { return get.Val() == menu }
		checks["MGET"] = func() bool { return slices.Equal(mget.Val(), []any{menu, nil, menu}) }
		checks["HGETALL"] = func() bool {
			return maps.Equal(all.Val(), map[string]string{"a": menu, "b": "short", "c": menu, "d": menu})
		}
		hget, hmget, vals := c.HGet(ctx, "menu:h", "a"), c.HMGet(ctx, "menu:h", "b", "c"), c.HVals(ctx, "menu:h")
		checks["HGET"] = func() bool { return hget.Val() == menu }
		checks["HMGET"] = func() bool { return slices.Equal(hmget.Val(), []any{"short", menu}) }
		checks["HVALS"] = func() bool { return slices.Contains(vals.Val(), menu) && len(vals.Val()) == 4 }
		scan, random := c.HScan(ctx, "menu:h", 0, "a", 10), c.HRandFieldWithValues(ctx, "menu:h", 4)
		checks["HSCAN"] = func() bool { page, _ := scan.Val(); return slices.Equal(page, []string{"a", menu}) }
		checks["HRANDFIELD"] = func() bool { return slices.Contains(random.Val(), redis.KeyValue{Key: "c", Value: menu}) }
		xrange, xread := c.XRange(ctx, "menu:s", "-", "+"), c.XRead(ctx, &redis.XReadArgs{Streams: []string{"menu:s", "0"}, Block: -1})
		checks["XRANGE"] = func() bool { return xrange.Val()[0].Values["m"] == menu }
		checks["XREAD"] = func() bool { return xread.Val()[0].Messages[0].Values["m"] == menu }
		info := c.XInfoStream(ctx, "menu:s")
		checks["XINFO"] = func() bool { return info.Val().FirstEntry.Values["m"] == menu }
		eval := c.Eval(ctx, "return {redis.call('GET', KEYS[1]), {redis.call('HGET', KEYS[2], 'a')}}", []string{"menu:set", "menu:h"})
		checks["EVAL"] = func() bool { return fmt.Sprint(eval.Val()) == fmt.Sprint([]any{menu, []any{menu}}) }
		into := c.GetToBuffer(ctx, "menu:set", make([]byte, 1000))
		checks["GetToBuffer"] = func() bool { return string(into.Bytes()) == menu }
		replaced := c.SetArgs(ctx, "menu:args", menu, redis.SetArgs{Get: true})
		checks["SET GET"] = func() bool { return replaced.Val() == menu }
		deleted := c.GetDel(ctx, "menu:bytes")
		checks["GETDEL"] = func() bool { return deleted.Val() == menu }
	})
	for name, ok := range checks {
		if !ok() {
			t.Errorf("%s: another reply", name)
		}
	}
}

// A value that begins like an envelope is read back as it was written, whatever the policy.
func TestMagic(t *testing.T) {
	s, _ := withPolicy(t)
	c := s.attached(t, Options{})
	for _, key := range []string{"menu:1", "other"} {
		for _, value := range []any{envelope.Magic + " looks like an envelope", []byte(envelope.Magic), net.IP(envelope.Magic + "\x01")} {
			must(t, c.Set(t.Context(), key, value, 0).Err())
			want := fmt.Sprintf("%s", value)
			if ip, ok := value.(net.IP); ok {
				want = string(ip)
			}
			if got := c.Get(t.Context(), key).Val(); got != want || s.plain.Get(t.Context(), key).Val() == want {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
	}
}

// Commands that would compute on sealed bytes are refused. A pipeline with one of them is not sent at all.
func TestRefusals(t *testing.T) {
	s, _ := withPolicy(t)
	c, ctx := s.attached(t, Options{}), t.Context()
	spy := &spying{}
	c.AddHook(spy)
	for _, cmd := range []redis.Cmder{
		c.Append(ctx, "menu:1", "x"), c.StrLen(ctx, "menu:1"), c.GetRange(ctx, "menu:1", 0, 1), c.SetRange(ctx, "menu:1", 0, "x"),
		c.Do(ctx, "hstrlen", "menu:1", "f"), c.BitOpOr(ctx, "to", "other", "menu:2"), c.SetBit(ctx, "menu:1", 1, 1),
		c.SetIFEQ(ctx, "menu:1", "x", "y", 0), c.Sort(ctx, "list", &redis.Sort{By: "menu:*"}),
		c.DoRaw(ctx, "get", "menu:1"), redisProcess(ctx, c, redis.NewSliceCmd(ctx, "set", "menu:1", menu)),
	} {
		if !errors.Is(cmd.Err(), ErrRefused) {
			t.Errorf("%s: %v", cmd.Name(), cmd.Err())
		}
	}
	p := c.Pipeline()
	set := p.Set(ctx, "menu:1", menu, 0)
	p.Append(ctx, "menu:1", "x")
	if _, err := p.Exec(ctx); !errors.Is(err, ErrRefused) || !errors.Is(set.Err(), ErrRefused) {
		t.Error(err, set.Err())
	}
	if spy.n != 0 || s.plain.DBSize(ctx).Val() != 0 {
		t.Error("something was sent")
	}
	if n, err := c.Append(ctx, "other", "x").Result(); n != 1 || err != nil {
		t.Error(n, err)
	}
	if err := c.Sort(ctx, "other", &redis.Sort{By: "nosort", Get: []string{"#"}}).Err(); errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// Under a rule with MinGain Disabled, gateways seal values and libraries don't. Commands that compute are refused,
// since a value may be an envelope.
func TestRuleToPlain(t *testing.T) {
	s, _ := withPolicy(t)
	c, ctx := s.attached(t, Options{}), t.Context()
	long := strings.Repeat(menu, 20)
	for _, cmd := range []redis.Cmder{c.Set(ctx, "web:1", long, 0), c.HSet(ctx, "web:h", "f", long), c.Set(ctx, "web:2", "short", 0)} {
		if cmd.Err() != nil {
			t.Fatal(cmd.Err())
		}
	}
	if s.plain.Get(ctx, "web:1").Val() != long || s.plain.HGet(ctx, "web:h", "f").Val() != long {
		t.Error("a library has sealed")
	}
	for _, cmd := range []redis.Cmder{
		c.Append(ctx, "web:1", "x"), c.StrLen(ctx, "web:1"), c.SetRange(ctx, "web:1", 0, "x"), c.Do(ctx, "hstrlen", "web:h", "f"),
		c.SetBit(ctx, "web:1", 1, 1), c.SetIFEQ(ctx, "web:1", "x", "y", 0),
	} {
		if !errors.Is(cmd.Err(), ErrRefused) {
			t.Errorf("%s: %v", cmd.Name(), cmd.Err())
		}
	}
}

func redisProcess(ctx context.Context, c *redis.Client, cmd redis.Cmder) redis.Cmder {
	_ = c.Process(ctx, cmd)
	return cmd
}

// spying counts commands.
type spying struct{ n int }

func (s *spying) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { s.n++; return next(ctx, cmd) }
}

func (s *spying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { s.n += len(cmds); return next(ctx, cmds) }
}

// Goroutines may share a command's arguments, and send a command again: the hook does not change what they
// see.
func TestSharedArguments(t *testing.T) {
	s, d := withPolicy(t)
	c, ctx := s.attached(t, Options{}), t.Context()
	args := []any{"set", "menu:1", menu}
	again := redis.NewStatusCmd(ctx, args...)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := c.Do(ctx, args...).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		must(t, c.Process(ctx, again))
	}
	wg.Wait()
	isStored(t, s.plain.Get(ctx, "menu:1").Val(), d.Number())
	if got := c.Get(ctx, "menu:1").Val(); got != menu || args[2] != menu {
		t.Errorf("%q", got)
	}
}

// If a connection breaks in the middle, the client sends the command again, sealed once.
func TestRetries(t *testing.T) {
	s, d := withPolicy(t)
	var dials, broken int
	c := newClient(t, &redis.Options{Addr: s.addr, PoolSize: 1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &breaking{Conn: conn, broken: &broken}, err
	}})
	must(t, Attach(t.Context(), c, Options{}))
	dials = 0
	must(t, c.Set(t.Context(), "menu:1", menu, 0).Err())
	isStored(t, s.plain.Get(t.Context(), "menu:1").Val(), d.Number())
	if broken != 1 || dials < 2 {
		t.Errorf("%d connections, %d broke", dials, broken)
	}
}

// breaking breaks the connection at the first envelope that is sent.
type breaking struct {
	net.Conn
	broken *int
}

func (b *breaking) Write(p []byte) (int, error) {
	if *b.broken == 0 && strings.Contains(string(p), envelope.Magic) {
		*b.broken++
		_ = b.Close()
		return 0, net.ErrClosed
	}
	return b.Conn.Write(p)
}

// In a cluster values are sealed on every node, and name only dictionaries that all primaries have.
func TestCluster(t *testing.T) {
	nodes, addrs := startCluster(t)
	for _, n := range nodes {
		n.hold(t, strings.Repeat(content, 3))
	}
	d, err := codec.NewDict([]byte(strings.Repeat(content, 3)))
	must(t, err)
	nodes[1].publish(t, "policy", object{"format": 1, "rules": rules})
	nodes[1].inForce(t, d)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer c.Close()
	must(t, Attach(t.Context(), c, Options{}))
	p := c.Pipeline()
	for i := range 20 {
		must(t, c.Set(t.Context(), fmt.Sprint("menu:", i), menu, 0).Err())
		p.Set(t.Context(), fmt.Sprint("menu:piped:", i), menu, 0)
		p.Get(t.Context(), fmt.Sprint("menu:", i))
	}
	replies, err := p.Exec(t.Context())
	must(t, err)
	for i := 1; i < len(replies); i += 2 {
		if got := replies[i].(*redis.StringCmd).Val(); got != menu {
			t.Errorf("%q", got)
		}
	}
	for _, n := range nodes {
		keys := n.plain.Keys(t.Context(), "menu:*").Val()
		for _, key := range keys {
			isStored(t, n.plain.Get(t.Context(), key).Val(), d.Number())
		}
		if len(keys) == 0 {
			t.Error("a node without keys")
		}
	}
}

func TestUnsupported(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if err := Attach(t.Context(), ring, Options{}); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
