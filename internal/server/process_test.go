package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// newProcess returns a process with one gateway at an address, with rules read from rules at each load.
func newProcess(t *testing.T, listen string, rules *string) (*Process, *testenv.Log, error) {
	t.Helper()
	store, log := miniredis.RunT(t), &testenv.Log{}
	p, err := New(Options{
		Load: func() (*config.Config, error) {
			text := fmt.Sprintf("admin: {listen: off}\ngateways: [{name: a, protocol: redis, listen: %q, upstream: \"redis://%s\", rules: %s}]\n", listen, store.Addr(), *rules)
			return config.Parse("", []byte(text), nil)
		},
		Log:  log,
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
	})
	return p, log, err
}

// A process reloads rules while it serves, keeps the old ones if the new ones are invalid, and drains on
// request.
func TestProcessReloadsAndDrains(t *testing.T) {
	rules := "[{setting: lz4}]"
	p, log, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, t.Context()) }()
	gateways, admin := p.Addresses()
	if len(gateways) != 1 || admin != nil {
		t.Fatal(gateways, admin)
	}
	rules = "[{setting: lz4-9}]"
	p.Reload()
	testenv.Eventually(t, "the rules are in force", func() bool { return log.Count("configuration reloaded") == 1 })
	if got := p.describe().Gateways[0].Rules[0].Setting; got != "lz4-9" {
		t.Error("the setting is", got)
	}
	rules = "[{settng: lz4}]"
	p.Reload()
	testenv.Eventually(t, "the mistake is told", func() bool { return log.Count("keeping the old one") > 0 })
	if got := p.describe().Gateways[0].Rules[0].Setting; got != "lz4-9" {
		t.Error("the setting is", got)
	}
	drain(errors.New("told to"))
	if err := <-ended; err != nil || log.Count("told to") != 1 {
		t.Errorf("%v\n%s", err, log)
	}
}

// The error of a failed start tells the caller its kind.
func TestProcessThatCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	rules := "[{setting: lz4}]"
	var occupied *ListenError
	if _, _, err := newProcess(t, taken.Addr().String(), &rules); !errors.As(err, &occupied) || occupied.For != "gateway a" {
		t.Error(err)
	}
}

// Likely mistakes are logged, at the start and after a reload.
func TestProcessWarns(t *testing.T) {
	rules := "[]"
	p, log, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if log.Count("the gateway compresses nothing") != 1 {
		t.Error(log)
	}
	rules = "[{setting: lz4}, {key: 'a*', setting: lz4}]"
	if err := p.tryReload(); err != nil || log.Count("the rule never matches") != 1 {
		t.Errorf("%v\n%s", err, log)
	}
}

// A reload leaves some gateways unchanged: those that the file no longer has, or has with another protocol, and
// those without rules. The gateways after them in the list are reloaded all the same.
func TestReloadsOfSeveralGateways(t *testing.T) {
	store, log := miniredis.RunT(t), &testenv.Log{}
	const (
		tunnel = `{name: t, protocol: tunnel, listen: "127.0.0.1:0", upstream: "tcp://127.0.0.1:1"}`
		calls  = `{name: a, protocol: grpc, listen: "127.0.0.1:0", upstream: "grpc://127.0.0.1:1", rules: [{setting: zstd-3}], peers: true}`
	)
	cache := func(name, setting string) string {
		return fmt.Sprintf(`{name: %s, protocol: redis, listen: "127.0.0.1:0", upstream: "redis://%s", rules: [{name: all, setting: %s}]}`, name, store.Addr(), setting)
	}
	for name, c := range map[string]struct{ before, after []string }{
		"a tunnel first":           {[]string{tunnel, cache("b", "lz4")}, []string{tunnel, cache("b", "s2")}},
		"the first one is removed": {[]string{cache("a", "lz4"), cache("b", "lz4")}, []string{cache("b", "s2")}},
		"one of gRPC is removed":   {[]string{calls, cache("b", "lz4")}, []string{cache("b", "s2")}},
		"its protocol changes":     {[]string{cache("a", "lz4"), cache("b", "lz4")}, []string{calls, cache("b", "s2")}},
		"and the other way round":  {[]string{calls, cache("b", "lz4")}, []string{cache("a", "lz4"), cache("b", "s2")}},
	} {
		t.Run(name, func(t *testing.T) {
			gateways := c.before
			p, err := New(Options{
				Load: func() (*config.Config, error) {
					return config.Parse("", []byte("admin: {listen: off}\ngateways: ["+strings.Join(gateways, ", ")+"]\n"), nil)
				},
				Log:  log,
				Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			for range 2 { // the second finds what the first has left
				gateways = c.after
				if err := p.tryReload(); err != nil {
					t.Fatal(err)
				}
			}
			if got := p.current.Load().policies["b"].Rules()[0].Setting.String(); got != "s2" {
				t.Errorf("b compresses with %s", got)
			}
		})
	}
}

// A drain can be cut off before its timeout.
func TestDrainIsCutOff(t *testing.T) {
	rules := "[{setting: lz4}]"
	p, log, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	p.started.DrainDelay = config.Duration(time.Hour)
	ctx, drain := context.WithCancelCause(t.Context())
	now, cut := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, now) }()
	drain(errors.New("told to"))
	testenv.Eventually(t, "it drains", func() bool { return log.Count("draining") == 1 })
	cut()
	if err := <-ended; !errors.Is(err, ErrCutOff) {
		t.Error(err)
	}
}

func TestDurationsInJSONAreText(t *testing.T) {
	var out strings.Builder
	log := newLogger(config.Log{Level: "info", Format: "json"}, new(slog.LevelVar), &out)
	log.Info("drained", "after", 1500*time.Millisecond, slog.Group("client", "waited", time.Minute))
	for _, want := range []string{`"after":"1.5s"`, `"waited":"1m0s"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

// everyGateway has one gateway of each kind, without reachable upstreams.
const everyGateway = `admin: {listen: off}
drain_timeout: 20s
gateways:
  - {name: redis, protocol: redis, listen: '127.0.0.1:0', upstream: 'redis://127.0.0.1:1', rules: [{setting: lz4}]}
  - {name: cluster, protocol: redis, listen: '127.0.0.1:0', upstream: 'redis+cluster://127.0.0.1:1', rules: [{setting: lz4}]}
  - {name: sentinels, protocol: redis, listen: '127.0.0.1:0', sentinel: '127.0.0.1:0', upstream: 'redis+sentinel://127.0.0.1:1/main', rules: [{setting: lz4}]}
  - {name: mongo, protocol: mongo, listen: '127.0.0.1:0', upstream: 'mongodb://127.0.0.1:1', sample: true}
  - {name: tarantool, protocol: tarantool, listen: '127.0.0.1:0', upstream: 'tarantool://127.0.0.1:1', rules: [{space: a, field: b, setting: lz4}]}
  - {name: postgres, protocol: postgres, listen: '127.0.0.1:0', upstream: 'postgres://127.0.0.1:1'}
  - {name: grpc, protocol: grpc, listen: '127.0.0.1:0', upstream: 'grpc://127.0.0.1:1', sample: true}
  - {name: near, protocol: tunnel, listen: '127.0.0.1:0', upstream: '127.0.0.1:1'}
  - {name: far, protocol: tunnel-exit, listen: '127.0.0.1:0', upstream: '127.0.0.1:1'}
`

// A process that is told to stop while it starts does so, whether the start or the drain reaches a gateway first.
// The race detector checks the rest.
func TestDrainWhileStarting(t *testing.T) {
	for round := range 10 {
		p, err := New(Options{
			Load: func() (*config.Config, error) { return config.Parse("", []byte(everyGateway), nil) },
			Log:  io.Discard,
			Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, drain := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(round)*10*time.Microsecond, drain)
		if err := p.Run(ctx, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
