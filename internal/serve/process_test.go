package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
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
