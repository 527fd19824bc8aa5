package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Tests of pack and serve with their defaults: no configuration, and no flag except the store's address.

const mostStored = 0.45 // share of the orders' bytes that may be stored

// ordersInTest is the number of orders that the tests store. A training on all of them takes minutes of CPU.
func ordersInTest() int { return codectest.Amount(1500, 1500, 20_000) }

// order returns an order of about 160 bytes, as shops cache them.
func order(r *rand.Rand) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	return fmt.Sprintf(`{"order_id":%d,"customer_id":%d,"sku":"SKU-%05d","quantity":%d,"total":%d.%02d,"currency":"%s","status":"%s","created_at":"2026-%02d-%02dT%02d:%02d:%02dZ"}`,
		1_000_000+r.IntN(9_000_000), r.IntN(900_000)+100_000, r.IntN(1e5), r.IntN(9)+1, r.IntN(500), r.IntN(100), pick("EUR", "USD", "GBP"),
		pick("pending", "paid", "shipped", "delivered"), r.IntN(12)+1, r.IntN(28)+1, r.IntN(24), r.IntN(60), r.IntN(60))
}

func orders(n int) []string {
	r := rand.New(rand.NewPCG(18, 8))
	all := make([]string, n)
	for i := range all {
		all[i] = order(r)
	}
	return all
}

func setOrders(t *testing.T, c *goredis.Client, all []string) {
	t.Helper()
	for at := 0; at < len(all); at += 1000 {
		if _, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for i := at; i < min(at+1000, len(all)); i++ {
				p.Set(t.Context(), fmt.Sprintf("order:%d", i), all[i], 0)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// share returns the stored share of the orders' bytes.
func share(t *testing.T, server *goredis.Client, all []string) float64 {
	t.Helper()
	raw, stored, plain := 0, 0, 0
	for at := 0; at < len(all); at += 1000 {
		got, err := server.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for i := at; i < min(at+1000, len(all)); i++ {
				p.Get(t.Context(), fmt.Sprintf("order:%d", i))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got {
			b, err := g.(*goredis.StringCmd).Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if raw, stored = raw+len(all[at+i]), stored+len(b); !envelope.IsSealed(b) {
				plain++
			}
		}
	}
	t.Logf("%d bytes of %d orders are stored in %d, %d plain", raw, len(all), stored, plain)
	return float64(stored) / float64(raw)
}

func TestDefaultsOfPack(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server := testenv.Redis(t)
	direct := connectTo(t, server.Addr)
	all := orders(ordersInTest())
	setOrders(t, direct, all)
	out := packed(t, "redis://"+server.Addr)
	if got := share(t, direct, all); got > mostStored {
		t.Errorf("%.3f of the bytes are stored\n%s", got, out)
	}
}

func TestDefaultsOfServe(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	t.Parallel()
	server, path := testenv.Redis(t), socket(t)
	direct := connectTo(t, server.Addr)
	s := startServe(t, serveOptions{redis: []string{"unix:" + path + "=redis://" + server.Addr}, overrides: adminOff()})
	s.logged("gateway listens")
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: path, DisableIdentity: true, ReadTimeout: time.Minute})
	defer client.Close()
	all := orders(ordersInTest())
	setOrders(t, client, all[:1500])
	s.logged("dictionary rolled out")
	setOrders(t, client, all)
	if got := share(t, direct, all); got > mostStored {
		t.Errorf("%.3f of the bytes are stored", got)
	}
	for i := 0; i < len(all); i += 97 {
		if got, err := client.Get(t.Context(), fmt.Sprintf("order:%d", i)).Result(); err != nil || got != all[i] {
			t.Fatalf("%q, %v; want %q", got, err, all[i])
		}
	}
	_ = client.Close()
	s.stop(os.Interrupt)
}

// If the server denies the right or the space to store dictionaries, the log has a single line about it, however
// long that lasts.
func TestDefaultsWithoutDictionaries(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		user string // in the upstream's URL
		acl  []any
		line string
	}{
		"no user logs in": {args: []string{"--requirepass", "secret"}, line: "dictionaries can't be read from the server"},
		"no right":        {user: "gw:pw@", acl: []any{"ACL", "SETUSER", "gw", "on", ">pw", "~*", "+@all", "-@scripting"}, line: "dictionaries can't be read from the server"},
		"no right to write": {
			user: "gw:pw@", acl: []any{"ACL", "SETUSER", "gw", "on", ">pw", "~*", "+@all", "-function|load"}, line: "dictionaries can't be stored in the server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, path := testenv.Redis(t, c.args...), socket(t)
			direct := goredis.NewClient(&goredis.Options{Addr: server.Addr, DisableIdentity: true})
			if len(c.args) > 0 {
				direct = goredis.NewClient(&goredis.Options{Addr: server.Addr, DisableIdentity: true, Password: "secret"})
			}
			defer direct.Close()
			if c.acl != nil {
				if err := direct.Do(t.Context(), c.acl...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			s := startServe(t, serveOptions{redis: []string{"unix:" + path + "=redis://" + c.user + server.Addr}, overrides: adminOff()})
			s.logged("gateway listens")
			o := *direct.Options()
			o.Network, o.Addr, o.Dialer = "unix", path, func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
			client := goredis.NewClient(&o)
			defer client.Close()
			setOrders(t, client, orders(3000))
			s.logged(c.line)
			if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings:\n%s", n, s.log.String())
			}
			_ = client.Close()
			s.stop(os.Interrupt)
		})
	}
}

// In a store that is too small for a dictionary, pack makes none, or a small one: values and dictionary together
// take no more memory than the values without a dictionary.
func TestDefaultsOfSmallStores(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	short := orders(350)
	for name, values := range map[string][]string{"350": short, "a dozen": short[:12]} {
		without, with := takes(t, values, "--rule", "key=*,setting=zstd-3"), takes(t, values)
		t.Logf("%s orders: %d bytes without a dictionary, %d by default", name, without, with)
		if with > without {
			t.Errorf("%s: by default a server takes %d bytes, without dictionaries %d", name, with, without)
		}
	}
}

// A gateway compares the cost of a dictionary with the stored values, not with the traffic. For a few values that
// are rewritten again and again it makes none, or a small one.
func TestDefaultsOfServeInSmallStores(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	t.Parallel()
	values := orders(350)
	without, with := takesServed(t, values, "key=*,setting=zstd-3"), takesServed(t, values)
	t.Logf("%d bytes without a dictionary, %d by default", without, with)
	if with > without {
		t.Errorf("by default a server takes %d bytes, without dictionaries %d", with, without)
	}
}

// takesServed returns the memory that a server uses for values written by a gateway often enough for a
// training.
func takesServed(t *testing.T, values []string, rules ...string) int64 {
	t.Helper()
	server, path := testenv.Redis(t), socket(t)
	direct := connectTo(t, server.Addr)
	s := startServe(t, serveOptions{redis: []string{"unix:" + path + "=redis://" + server.Addr}, rules: rules, overrides: adminOff()})
	s.logged("gateway listens")
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: path, DisableIdentity: true, ReadTimeout: time.Minute})
	all := orders(1500)
	for at := 0; at+len(values) <= len(all); at += len(values) {
		setOrders(t, client, all[at:at+len(values)])
	}
	if len(rules) == 0 {
		s.logged("promised=") // the training has ended, with or without a result
	}
	setOrders(t, client, values)
	_ = client.Close()
	s.stop(os.Interrupt)
	return held(t, direct, values)
}

// takes returns the memory that a server uses for packed values.
func takes(t *testing.T, values []string, args ...string) int64 {
	t.Helper()
	server := testenv.Redis(t)
	direct := connectTo(t, server.Addr)
	setOrders(t, direct, values)
	packed(t, append([]string{"redis://" + server.Addr}, args...)...)
	return held(t, direct, values)
}

// held returns the memory that a server uses for values, with their keys, and for functions.
func held(t *testing.T, direct *goredis.Client, values []string) (bytes int64) {
	t.Helper()
	for i := range values {
		n, err := direct.MemoryUsage(t.Context(), fmt.Sprintf("order:%d", i)).Result()
		if err != nil {
			t.Fatal(err)
		}
		bytes += n
	}
	for line := range strings.SplitSeq(direct.Info(t.Context(), "memory").Val(), "\r\n") {
		name, text, _ := strings.Cut(line, ":")
		if name == "used_memory_functions" || name == "used_memory_vm_functions" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			bytes += n
		}
	}
	return bytes
}
