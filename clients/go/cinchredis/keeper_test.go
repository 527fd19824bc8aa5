package cinchredis

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

var (
	zstd3 = codec.Setting{Codec: codec.Zstd, Level: 3}
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

func countOf(info, name string) (n int) {
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, name+":calls="); ok {
			for _, c := range rest {
				if c < '0' || c > '9' {
					break
				}
				n = n*10 + int(c-'0')
			}
		}
	}
	return n
}

// A world has a clock that moves only when it is set, and a store that can be cut off.
type world struct {
	servers
	now atomic.Int64
	cut atomic.Bool
}

var errCut = errors.New("cut off")

func (w *world) connect(ctx context.Context) (connected, error) {
	if w.cut.Load() {
		return connected{}, errCut
	}
	return w.servers.connect(ctx)
}

func (w *world) pass(d time.Duration) { w.now.Add(int64(d)) }

// inWorld attaches a client in a new world.
func inWorld(t *testing.T, s *server) (*redis.Client, *hook, *world) {
	t.Helper()
	c := newClient(t, &redis.Options{Addr: s.addr})
	h, err := newHook(c, Options{Log: quiet})
	must(t, err)
	w := &world{servers: h.keeper.servers}
	w.now.Store(time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC).UnixNano())
	h.keeper.servers, h.keeper.now = w, func() time.Time { return time.Unix(0, w.now.Load()) }
	h.keeper.begin(t.Context())
	c.AddHook(h)
	return c, h, w
}

// settle waits until a read of the policy that is under way has ended.
func (h *hook) settle() {
	h.keeper.asking.Lock()
	defer h.keeper.asking.Unlock()
}

func dictionaryOf(t *testing.T, s *server, key string) uint32 {
	t.Helper()
	h, err := envelope.ParseHeader([]byte(s.plain.Get(t.Context(), key).Val()))
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return h.Dict
}

// write writes a value that is compressible without a dictionary, so that it is sealed with and without.
func write(t *testing.T, c *redis.Client, key string) {
	t.Helper()
	must(t, c.Set(t.Context(), key, strings.Repeat(menu, 5), 0).Err())
}

// A dictionary is named for two minutes after the store was seen to have it. Then values are sealed without,
// until the store answers.
func TestExpiry(t *testing.T) {
	s, d := withPolicy(t)
	c, h, w := inWorld(t, s)
	w.cut.Store(true)
	for _, step := range []struct {
		pass time.Duration
		want uint32
	}{{0, d.Number()}, {time.Minute, d.Number()}, {time.Minute - time.Nanosecond, d.Number()}, {time.Nanosecond, 0}, {time.Hour, 0}} {
		w.pass(step.pass)
		write(t, c, "menu:1")
		h.settle()
		if got := dictionaryOf(t, s, "menu:1"); got != step.want {
			t.Errorf("%s later: dictionary %08x, want %08x", step.pass, got, step.want)
		}
		if got := c.Get(t.Context(), "menu:1").Val(); got != strings.Repeat(menu, 5) {
			t.Error("another value")
		}
	}
	w.cut.Store(false)
	w.pass(refreshEvery)
	write(t, c, "menu:1") // starts a read of the policy
	h.settle()
	write(t, c, "menu:1")
	if got := dictionaryOf(t, s, "menu:1"); got != d.Number() {
		t.Errorf("the store is back: dictionary %08x", got)
	}
}

// Changes take effect half a minute after they were published: another dictionary, its retirement, another policy.
func TestRefresh(t *testing.T) {
	s, first := withPolicy(t)
	c, h, w := inWorld(t, s)
	next := s.hold(t, strings.Repeat(content, 3)+menu)
	s.inForce(t, next)
	after := func(pass time.Duration) {
		w.pass(pass)
		h.keeper.current()
		h.settle()
		write(t, c, "menu:1")
	}
	after(refreshEvery - time.Nanosecond)
	if got := dictionaryOf(t, s, "menu:1"); got != first.Number() {
		t.Errorf("before: %08x", got)
	}
	after(time.Nanosecond)
	if got := dictionaryOf(t, s, "menu:1"); got != next.Number() {
		t.Errorf("after: %08x", got)
	}
	s.retire(t, next)
	after(refreshEvery)
	if got := dictionaryOf(t, s, "menu:1"); got != 0 {
		t.Errorf("retired: %08x", got)
	}
	s.publish(t, "policy", object{"format": 2, "rules": []object{{"anything": "else"}}})
	after(refreshEvery)
	if got := s.plain.Get(t.Context(), "menu:1").Val(); got != strings.Repeat(menu, 5) {
		t.Error("sealed by a policy of a later format")
	}
}

func (s *server) retire(t *testing.T, d *codec.Dict) {
	t.Helper()
	name := "cinch_retired_" + hex(d.Number())
	must(t, s.plain.FunctionLoad(t.Context(), "#!lua name="+name+"\nredis.register_function('"+name+"', function() return 1 end)\n").Err())
}

// Without a policy, and while it can't be read, nothing is sealed, and stored envelopes are opened.
func TestNoPolicy(t *testing.T) {
	s, _ := withPolicy(t)
	write(t, s.attached(t, Options{}), "menu:1")
	c := newClient(t, &redis.Options{Addr: s.addr})
	h, err := newHook(c, Options{Log: quiet})
	must(t, err)
	w := &world{servers: h.keeper.servers}
	w.cut.Store(true)
	h.keeper.servers = w
	h.keeper.begin(t.Context())
	c.AddHook(h)
	write(t, c, "menu:2")
	if got := s.plain.Get(t.Context(), "menu:2").Val(); got != strings.Repeat(menu, 5) {
		t.Error("sealed")
	}
	if err := c.Get(t.Context(), "menu:1").Err(); !errors.Is(err, ErrDictionaryUnavailable) {
		t.Error(err)
	}
	w.cut.Store(false)
	eventually(t, "the dictionary is asked for again", func() bool { return c.Get(t.Context(), "menu:1").Val() == strings.Repeat(menu, 5) })
}

// Each login has its own dictionaries, on a server with users.
func TestLogins(t *testing.T) {
	s, d := withPolicy(t)
	must(t, s.plain.ACLSetUser(t.Context(), "ann", "on", ">secret", "~*", "+@all").Err())
	c := newClient(t, &redis.Options{Addr: s.addr, Username: "ann", Password: "secret"})
	must(t, Attach(t.Context(), c, Options{}))
	write(t, c, "menu:1")
	if got := dictionaryOf(t, s, "menu:1"); got != 0 {
		t.Errorf("ann's value has dictionary %08x, the default user's is %08x", got, d.Number())
	}
}
