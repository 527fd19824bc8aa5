package redis

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/test/testenv"
)

func libraryName(number uint32) string { return functions{prefix: libraryPrefix}.name(number) }

func keyName(number uint32) string { return keys{prefix: keyPrefix}.name(number) }

func testDict(t testing.TB, seed string) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict([]byte(strings.Repeat(seed+` {"order":"`+seed+`","state":"open"}`, 20)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// twins returns two dictionaries with the same number.
var twins = sync.OnceValues(func() (*codec.Dict, *codec.Dict) {
	seen := make(map[[4]byte]int)
	for i := 0; ; i++ {
		content := fmt.Appendf(nil, "dictionary %020d", i)
		sum := sha256.Sum256(content)
		if j, ok := seen[[4]byte(sum[:4])]; ok {
			a, _ := codec.NewDict(fmt.Appendf(nil, "dictionary %020d", j))
			b, _ := codec.NewDict(content)
			return a, b
		}
		seen[[4]byte(sum[:4])] = i
	}
})

// asked counts the commands that a client sends, by "function list" or "getrange".
type asked struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *asked) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (a *asked) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		a.mu.Lock()
		if a.n == nil {
			a.n = make(map[string]int)
		}
		name := cmd.Name()
		if name == "function" {
			name += fmt.Sprint(" ", cmd.Args()[1])
		}
		a.n[name]++
		a.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (a *asked) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (a *asked) count(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n[name]
}

func connect(t testing.TB, o goredis.Options) *goredis.Client {
	t.Helper()
	o.MaxRetries, o.DialerRetries = -1, 1
	if o.ReadTimeout == 0 {
		o.ReadTimeout = time.Minute
	}
	c := goredis.NewClient(&o)
	t.Cleanup(func() { c.Close() })
	return c
}

// gatewayOn returns a client of the server and a Dicts that uses it and logs into log.
func gatewayOn(t testing.TB, addr string, log *testenv.Log) (*Dicts, *goredis.Client) {
	t.Helper()
	c := connect(t, goredis.Options{Addr: addr})
	return NewDicts(DictsOptions{Client: c, Log: log.Logger()}), c
}

// withoutFunctions starts a server without the FUNCTION command, as before Redis 7.
func withoutFunctions(t testing.TB, args ...string) *testenv.RedisServer {
	t.Helper()
	return testenv.Redis(t, append([]string{"--rename-command", "FUNCTION", ""}, args...)...)
}

func mustPublish(t testing.TB, d *Dicts, dicts ...*codec.Dict) {
	t.Helper()
	if err := d.Publish(t.Context(), dicts...); err != nil {
		t.Fatalf("publish: %v", err)
	}
	for _, x := range dicts {
		wantReady(t, d, x, true)
	}
}

func mustRecheck(t testing.TB, d *Dicts) {
	t.Helper()
	if err := d.Recheck(t.Context()); err != nil {
		t.Fatalf("recheck: %v", err)
	}
}

func wantReady(t testing.TB, d *Dicts, x *codec.Dict, want bool) {
	t.Helper()
	if got := d.Ready(x.Number()); got != want {
		t.Fatalf("ready(%08x) = %v, want %v", x.Number(), got, want)
	}
}

// mustHold checks that a new Dicts finds the dictionary in the server.
func mustHold(t testing.TB, addr string, x *codec.Dict) {
	t.Helper()
	other, _ := gatewayOn(t, addr, &testenv.Log{})
	got, err := other.Dictionary(x.Number())
	if err != nil {
		t.Fatalf("dictionary %08x: %v", x.Number(), err)
	}
	if !slices.Equal(got.Content(), x.Content()) {
		t.Fatalf("dictionary %08x has other content", x.Number())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
