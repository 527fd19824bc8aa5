package survive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Minute})
	t.Cleanup(func() { c.Close() })
	return c
}

// valueOf returns a value that contains its key and number, so that it differs from any other.
func valueOf(key string, n int) string {
	r := rand.New(rand.NewPCG(uint64(len(key)), uint64(n)))
	return fmt.Sprintf(`{"key":%q,"n":%d,"customer":{"id":%d,"segment":"returning","country":"PT"},"state":"shipped","currency":"EUR","total":%d.%02d,"warehouse":"lisbon-2"}`,
		key, n, r.IntN(1e6), r.IntN(900), r.IntN(100))
}

// isValueOf reports whether a text is one of the key's values.
func isValueOf(key, text string) bool {
	var n int
	_, err := fmt.Sscanf(text, fmt.Sprintf(`{"key":%q,"n":%%d,`, key), &n)
	return err == nil && text == valueOf(key, n)
}

func newDict(t testing.TB, about string) *codec.Dict {
	t.Helper()
	var content strings.Builder
	for i := range 20 {
		content.WriteString(valueOf(about, i))
	}
	d, err := codec.NewDict([]byte(content.String()))
	must(t, err)
	return d
}

// reader returns a dictionary store for one server, with nothing cached.
func reader(t testing.TB, addr string) *storeredis.Dicts {
	t.Helper()
	return storeredis.NewDicts(storeredis.DictsOptions{
		Client: connect(t, addr), Log: slog.New(slog.DiscardHandler), MissTTL: time.Millisecond,
	})
}

func opener(dicts envelope.Dictionaries) *envelope.Sealer {
	return envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{}), Dicts: dicts})
}

func publish(t testing.TB, addr string, d *codec.Dict) {
	t.Helper()
	must(t, reader(t, addr).Publish(t.Context(), d))
}

func holds(t testing.TB, addr string, d *codec.Dict) bool {
	t.Helper()
	_, err := reader(t, addr).Dictionary(d.Number())
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		t.Fatal(err)
	}
	return err == nil
}

// dictOf returns the number of the dictionary that a stored value names, 0 if none.
func dictOf(stored string) uint32 {
	h, err := envelope.ParseHeader([]byte(stored))
	if err != nil {
		return 0
	}
	return h.Dict
}

// gatewayWith starts a gateway that compresses with the dictionary, which the store must have.
func gatewayWith(t testing.TB, upstream string, d *codec.Dict, settings ...string) *testenv.GatewayServer {
	t.Helper()
	return testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: upstream, Rules: fmt.Sprintf("- {name: all, type: [string, hash, stream], setting: zstd-3@%08x}", d.Number()), Settings: strings.Join(settings, "\n"),
	})
}

// waitForUse waits until values written through a gateway name the dictionary.
func waitForUse(t testing.TB, gateway, direct *goredis.Client, d *codec.Dict) {
	t.Helper()
	testenv.Eventually(t, "the gateway seals with the dictionary", func() bool {
		must(t, gateway.Set(t.Context(), "probe", valueOf("probe", 1), 0).Err())
		return dictOf(direct.Get(t.Context(), "probe").Val()) == d.Number()
	})
}

// freshGateway starts a gateway that has loaded no dictionary.
func freshGateway(t testing.TB, upstream string) *testenv.GatewayServer {
	t.Helper()
	return testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstream})
}

// command runs the program, which must exit with the code, and returns its output.
func command(t testing.TB, code int, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Cinch(t), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("cinch %s ended with %d (%v), want %d:\n%s", strings.Join(args, " "), got, err, code, &out)
	}
	return out.String()
}

// load is clients that write and read through a gateway, each with its own keys.
type load struct {
	t       testing.TB
	addr    string
	db      int
	losing  bool // values may be lost, and connections may break
	written atomic.Int64
	stop    chan struct{}
	clients sync.WaitGroup
}

const (
	loadClients = 4
	loadKeys    = 200 // per client
)

func loadKey(client, k int) string { return fmt.Sprintf("load:%d:%d", client, k) }

func startLoad(t testing.TB, addr string, db int, losing bool) *load {
	l := &load{t: t, addr: addr, db: db, losing: losing, stop: make(chan struct{})}
	for i := range loadClients {
		l.clients.Go(func() { l.client(i) })
	}
	return l
}

// goOn waits until n more values have been written.
func (l *load) goOn(n int64) {
	l.t.Helper()
	before := l.written.Load()
	testenv.Eventually(l.t, "values are written", func() bool { return l.written.Load() >= before+n || l.t.Failed() })
}

func (l *load) end() {
	close(l.stop)
	l.clients.Wait()
}

func (l *load) client(number int) {
	c := goredis.NewClient(&goredis.Options{
		Addr: l.addr, DB: l.db, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute,
	})
	defer c.Close()
	r := rand.New(rand.NewPCG(uint64(number), 1))
	last := map[string]string{}
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-time.After(500 * time.Microsecond):
		}
		key := loadKey(number, r.IntN(loadKeys))
		if r.IntN(3) > 0 {
			v := valueOf(key, n)
			err := l.write(c, number, key, v)
			if err == nil {
				l.written.Add(1)
				last[key] = v
			} else if !l.losing {
				l.t.Errorf("%s: %v", key, err)
				return
			}
			continue
		}
		if err := l.read(c, number, key, last[key]); err != nil {
			l.t.Errorf("%s: %v", key, err)
			return
		}
	}
}

// write writes a value; every other client keeps its values in hashes.
func (l *load) write(c *goredis.Client, number int, key, value string) error {
	if number%2 == 0 {
		return c.Set(context.Background(), key, value, 0).Err()
	}
	return c.HSet(context.Background(), key, "f", value).Err()
}

func (l *load) read(c *goredis.Client, number int, key, want string) error {
	cmd := c.Get(context.Background(), key)
	if number%2 != 0 {
		cmd = c.HGet(context.Background(), key, "f")
	}
	got, err := cmd.Result()
	var answer goredis.Error
	switch {
	case err == goredis.Nil:
		if !l.losing && want != "" {
			return errors.New("is gone")
		}
		return nil
	case err != nil && l.losing && !errors.As(err, &answer):
		return nil // a broken connection
	case err != nil:
		return err
	case !l.losing && got != want || !isValueOf(key, got):
		return fmt.Errorf("holds %.80q, want %.80q", got, want)
	}
	return nil
}

// readAll reads the remaining values through another gateway, and returns their number and how many of them
// name the dictionary.
func (l *load) readAll(gateway, direct string, d *codec.Dict) (values, naming int) {
	l.t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: gateway, DB: l.db})
	raw := goredis.NewClient(&goredis.Options{Addr: direct, DB: l.db})
	defer c.Close()
	defer raw.Close()
	for i := range loadClients {
		for k := range loadKeys {
			key := loadKey(i, k)
			get := func(c *goredis.Client) (string, error) {
				if i%2 == 0 {
					return c.Get(context.Background(), key).Result()
				}
				return c.HGet(context.Background(), key, "f").Result()
			}
			got, err := get(c)
			if err == goredis.Nil {
				continue
			}
			if err != nil || !isValueOf(key, got) {
				l.t.Errorf("%s reads as %.80q, %v", key, got, err)
				return values, naming
			}
			values++
			if stored, err := get(raw); err == nil && dictOf(stored) == d.Number() {
				naming++
			}
		}
	}
	return values, naming
}
