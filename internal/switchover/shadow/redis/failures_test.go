package redis

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// nowhere makes a server a replica of an address without a primary, so that it keeps its data and refuses
// writes.
var nowhere = []any{"replicaof", "127.0.0.1", "1"}

func tell(t *testing.T, s *testenv.RedisServer, args ...any) {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr, MaxRetries: -1})
	defer c.Close()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// Requests that production refuses because of its own state are not sent to targets: the mirror has other
// rights and memory there than clients have in production.
func TestRefusedByProduction(t *testing.T) {
	for name, c := range map[string]struct {
		refuse, allow []any // by production
		code          string
	}{
		"a client without rights": {[]any{"acl", "setuser", "default", "-set", "-flushall"}, []any{"acl", "setuser", "default", "+@all"}, "NOPERM"},
		"no memory":               {[]any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}, "OOM"},
		"a failover":              {nowhere, []any{"replicaof", "no", "one"}, "READONLY"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			client, ctx := b.client(t), t.Context()
			client.Set(ctx, "k", "before", 0)
			tell(t, b.production, c.refuse...)
			if err := client.Set(ctx, "k", "refused", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), c.code) {
				t.Errorf("production says %v", err)
			}
			_, _ = client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				p.Set(ctx, "k", "refused", 0)
				return nil
			})
			if c.code != "OOM" { // it uses no memory
				_ = client.FlushAll(ctx).Err()
			}
			tell(t, b.production, c.allow...)
			if err := client.Append(ctx, "k", " and after").Err(); err != nil {
				t.Error(err)
			}
			r := b.settle(t)
			if r.Left[productionErrorPrefix+c.code] == 0 || r.Compared.Diverged > 0 {
				t.Errorf("left out %v, %+v", r.Left, r.Compared)
			}
			if got := fmt.Sprint(contents(t, b.test)); got != "map[k:before and after]" {
				t.Errorf("the target has %s", got)
			}
		})
	}
}

// A client that has not logged in reaches neither production nor the targets.
func TestClientWithoutLogin(t *testing.T) {
	b := &bench{production: testenv.Redis(t, "--requirepass", "secret"), control: testenv.Redis(t), test: testenv.Redis(t)}
	b.start(t, nil)
	ctx := t.Context()
	known := goredis.NewClient(&goredis.Options{Addr: b.addr, PoolSize: 1, Password: "secret"})
	defer known.Close()
	if err := known.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	stranger := b.client(t)
	for range 3 {
		_ = stranger.FlushAll(ctx).Err()
		_ = stranger.Set(ctx, "k", "a stranger's", 0).Err()
	}
	if r := b.settle(t); r.Left[productionErrorPrefix+"NOAUTH"] < 6 {
		t.Errorf("left out: %v", r.Left)
	}
	if got := fmt.Sprint(contents(t, b.test), contents(t, b.control)); got != "map[k:v] map[k:v]" {
		t.Errorf("the targets have %s", got)
	}
}

// A replica replaces production at the same address: clients are disconnected as they would be without the
// mirror, and continue with the replica.
func TestProductionFailsOver(t *testing.T) {
	b := &bench{production: testenv.Redis(t), control: testenv.Redis(t), test: testenv.Redis(t)}
	next := testenv.Redis(t, "--replicaof", fmt.Sprint("127.0.0.1 ", b.production.Port), "--repl-diskless-sync-delay", "0")
	relay := testenv.StartRelay(t, b.production.Addr)
	b.start(t, func(c *shadow.Config) {
		up, err := endpoint.ParseUpstream("redis://"+relay.Addr, "6379")
		if err != nil {
			t.Fatal(err)
		}
		c.Production = up
	})
	ctx := t.Context()
	c := b.client(t)
	for i := range 100 {
		if err := c.Incr(ctx, fmt.Sprint("n", i%7)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "the replica has all", func() bool { return c.Wait(ctx, 1, time.Second).Val() == 1 })
	b.production.Kill()
	tell(t, next, "replicaof", "no", "one")
	relay.Point(next.Addr)
	testenv.Eventually(t, "the client is served again", func() bool { return c.Ping(ctx).Err() == nil })
	for i := range 100 {
		if err := c.Incr(ctx, fmt.Sprint("n", i%7)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.settle(t); r.Outcome == "VOID" || r.Compared.Diverged > 0 {
		t.Errorf("%s %q %+v", r.Outcome, r.Reasons, r.Compared)
	}
	same(t, next, b.control)
	same(t, next, b.test)
}

// loads makes a server load its data, slowly, until done is called.
func loads(t *testing.T, s *testenv.RedisServer) (done func()) {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	ctx := t.Context()
	for i := range 2000 {
		c.Set(ctx, fmt.Sprint("loaded:", i), strings.Repeat("x", 100), 0)
	}
	tell(t, s, "config", "set", "key-load-delay", "2000", "loading-process-events-interval-bytes", "1024")
	reloaded := make(chan error, 1)
	go func() { reloaded <- c.Do(ctx, "debug", "reload").Err() }()
	direct := goredis.NewClient(&goredis.Options{Addr: s.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = direct.Close() })
	testenv.Eventually(t, "it loads", func() bool {
		err := direct.Get(ctx, "k").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	return func() {
		t.Helper()
		tell(t, s, "config", "set", "key-load-delay", "0")
		if err := <-reloaded; err != nil {
			t.Error(err)
		}
	}
}

// Production loads its data again, as after a restart: commands that it refuses meanwhile are not sent to
// targets.
func TestProductionLoads(t *testing.T) {
	b := &bench{production: testenv.Redis(t, "--enable-debug-command", "yes"), control: testenv.Redis(t), test: testenv.Redis(t)}
	b.start(t, nil)
	c := b.client(t)
	c.Set(t.Context(), "k", "v", 0)
	done := loads(t, b.production)
	if err := c.Set(t.Context(), "k", "refused", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
		t.Errorf("production says %v", err)
	}
	done()
	if err := c.Append(t.Context(), "k", "w").Err(); err != nil {
		t.Error(err)
	}
	if r := b.settle(t); r.Left[productionErrorPrefix+"LOADING"] != 1 || r.Compared.Diverged > 0 {
		t.Errorf("left out %v, %+v", r.Left, r.Compared)
	}
	if got := fmt.Sprint(contents(t, b.test)); got != "map[k:vw]" {
		t.Errorf("the target has %s", got)
	}
}

// A target that fails during a run voids it with a reason, and clients are not affected.
func TestTargetTurnsBad(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, s *testenv.RedisServer)
		why   string
	}{
		"no memory left": {func(t *testing.T, s *testenv.RedisServer) { tell(t, s, "config", "set", "maxmemory", "1") }, "control answered a value, test error OOM"},
		"a replica":      {func(t *testing.T, s *testenv.RedisServer) { tell(t, s, nowhere...) }, "control answered a value, test error READONLY"},
		"a restart":      {func(t *testing.T, s *testenv.RedisServer) { loads(t, s) }, "test error LOADING"},
		"rights":         {func(t *testing.T, s *testenv.RedisServer) { tell(t, s, "acl", "setuser", "mirror", "-append") }, "test error NOPERM"},
		"another password": {func(t *testing.T, s *testenv.RedisServer) {
			tell(t, s, "acl", "setuser", "mirror", "resetpass", ">other")
			tell(t, s, "client", "kill", "user", "mirror")
		}, "test ("},
		"a password at the next login": {func(t *testing.T, s *testenv.RedisServer) {
			tell(t, s, "acl", "setuser", "mirror", "resetpass", ">other")
		}, "login refused: WRONGPASS"},
		"data that are gone": {func(t *testing.T, s *testenv.RedisServer) { tell(t, s, "flushall") }, "answers differ, the first to APPEND k"},
		"killed":             {func(_ *testing.T, s *testenv.RedisServer) { s.Kill() }, "test ("},
		"frozen":             {freeze, "i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{production: testenv.Redis(t), control: testenv.Redis(t), test: testenv.Redis(t, "--enable-debug-command", "yes")}
			tell(t, b.test, "acl", "setuser", "mirror", "on", ">p", "~*", "&*", "+@all")
			b.start(t, func(cfg *shadow.Config) {
				cfg.Test.User, cfg.Test.Password = "mirror", "p"
				if name == "frozen" {
					cfg.Patience = 500 * time.Millisecond
				}
			})
			n := b.writeUntil(t, func() { c.spoil(t, b.test) })
			r := b.run.Report()
			if r.Outcome != "VOID" || !strings.Contains(strings.Join(r.Reasons, "; "), c.why) {
				t.Errorf("%s: %q", r.Outcome, r.Reasons)
			}
			t.Logf("%q, ended: %s", r.Reasons, r.Ended)
			if got := contents(t, b.production)["k"]; got != strings.Repeat("x", n) {
				t.Errorf("production has %d of %d", len(got), n)
			}
		})
	}
}

// writeUntil appends to a key, has a target spoiled, reconnects, and continues until the mirror has ended.
func (b *bench) writeUntil(t *testing.T, spoil func()) (written int) {
	t.Helper()
	c := b.client(t)
	write := func() {
		if err := c.Append(t.Context(), "k", "x").Err(); err != nil {
			t.Fatal(err)
		}
		written++
	}
	for range 20 {
		write()
	}
	direct := goredis.NewClient(&goredis.Options{Addr: b.test.Addr})
	defer direct.Close()
	testenv.Eventually(t, "the target has them", func() bool { return direct.StrLen(t.Context(), "k").Val() == 20 })
	spoil()
	write()
	c = b.client(t)
	shadowtest.AwaitOver(t, b.run, write)
	write()
	return written
}

// A user without the right to run COMMAND gets an error that says so. Production, which record asks, is not
// called a target.
func TestCommandsAreRefused(t *testing.T) {
	server := testenv.Redis(t)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	if err := c.Do(t.Context(), "ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-command").Err(); err != nil {
		t.Fatal(err)
	}
	up := endpoint.Upstream{Network: "tcp", Address: server.Addr, User: "poor", Password: "x"}
	var hinted interface{ Hint() string }
	if _, err := New(t.Context(), up); !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "allow its user to run COMMAND") || !strings.Contains(err.Error(), "control (tcp://") {
		t.Error(err)
	}
	if _, err := NewFilters(t.Context(), up, []string{"a*"}); err == nil || !strings.Contains(err.Error(), "production (tcp://") {
		t.Error(err)
	}
}

// With stopped targets, clients are not affected, memory stays within its bound, and pieces that do not fit
// are counted.
func TestFrozenTargets(t *testing.T) {
	b := newBench(t, func(c *shadow.Config) { c.Memory, c.OffTime, c.Patience = 2*shadow.MiB, time.Second, time.Hour })
	for _, s := range []*testenv.RedisServer{b.control, b.test} {
		freeze(t, s)
	}
	c := b.client(t)
	value := strings.Repeat("v", 10_000)
	for i := range 1000 {
		if err := c.Set(t.Context(), fmt.Sprint("k", i%10), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if held := b.run.Held(); held > 2*shadow.MiB {
		t.Errorf("%d bytes are held", held)
	}
	b.run.Off("enough")
	<-b.run.Over()
	if r := b.run.Report(); r.Dropped != 1 || r.Ended != "enough" {
		t.Errorf("%d connections dropped, ended: %q", r.Dropped, r.Ended)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("with the mirror off: %v", err)
	}
}

func freeze(t *testing.T, s *testenv.RedisServer) {
	t.Helper()
	if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) })
}

// A killed target voids the run and turns the mirror off. Production continues.
func TestKilledTarget(t *testing.T) {
	b := newBench(t, nil)
	c := b.client(t)
	c.Set(t.Context(), "k", "v", 0)
	b.test.Kill()
	testenv.Eventually(t, "the mirror is off", func() bool {
		if err := c.Incr(t.Context(), "n").Err(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.run.Over():
			return true
		default:
			return false
		}
	})
	if r := b.run.Report(); r.Outcome != "VOID" || len(r.Reasons) == 0 {
		t.Errorf("%s: %q", r.Outcome, r.Reasons)
	}
	if n := c.Incr(t.Context(), "n").Val(); n < 2 {
		t.Errorf("production answers %d", n)
	}
}

// A wrong value at a target is found, and its key's pattern is named without showing the value.
func TestDifferentData(t *testing.T) {
	b := newBench(t, nil)
	c := b.client(t)
	c.Set(t.Context(), "user:1", "secret", 0)
	direct := goredis.NewClient(&goredis.Options{Addr: b.test.Addr})
	defer direct.Close()
	testenv.Eventually(t, "the write has come", func() bool { return direct.Get(t.Context(), "user:1").Val() == "secret" })
	direct.Set(t.Context(), "user:1", "secrets", 0)
	c.Get(t.Context(), "user:1")
	shadowtest.FindsOne(t, b.run, "GET user:*", "secret")
}
