package differential

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

var flagCommands = flag.Int("diff.n", 0, "commands in each mode of TestDifferential; 0: CINCH_DIFF_COMMANDS over all modes")

const (
	perRound    = 2_000 // commands run before the stores are emptied
	shrinkTries = 300
)

// mode is a configuration of gateways in front of one server.
type mode struct {
	name     string
	gateways []testenv.GatewayConfig // used by the connections of a stream in turns
	after    []testenv.GatewayConfig // used by a second stream on the same data
	atLeast  float64                 // least share of values that must be compressed
	pieces   bool                    // split the bytes that gateways read at random places
}

const manyRules = `
- {name: counters, key: "n:*", setting: lz4}
- {name: small, type: string, max_size: 200, min_gain: 0%, setting: snappy}
- {name: medium, type: string, max_size: 4KiB, setting: s2}
- {name: big, type: string, min_size: 100KiB, setting: zstd-1}
- {name: rest, type: string, setting: lz4}
- {name: hashes, type: hash, key: "h:a", setting: zlib}
- {name: more-hashes, type: hash, min_size: 20, setting: minlz}
- {name: streams, type: stream, setting: gzip}
`

func modes() []mode {
	force := testenv.GatewayConfig{Force: true}
	off := testenv.GatewayConfig{Settings: "enabled: false"}
	rules := testenv.GatewayConfig{Rules: manyRules}
	return []mode{
		{name: "default", gateways: []testenv.GatewayConfig{{}}, atLeast: 0.05},
		{name: "rules", gateways: []testenv.GatewayConfig{rules}, atLeast: 0.05},
		{name: "force", gateways: []testenv.GatewayConfig{force}, atLeast: 0.3},
		{name: "off", gateways: []testenv.GatewayConfig{force}, after: []testenv.GatewayConfig{off}, atLeast: 0.1},
		{name: "mixed", gateways: []testenv.GatewayConfig{force, off, rules}, atLeast: 0.1},
		{name: "pieces", gateways: []testenv.GatewayConfig{rules, off, force}, atLeast: 0.1, pieces: true},
	}
}

func TestDifferential(t *testing.T) {
	all := modes()
	n := commandsPerMode(len(all))
	seed := testenv.Seed(t)
	for i, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Logf("-seed %d, %d commands", seed, n)
			newBench(t, m).rounds(t, seed+uint64(i)<<32, n)
		})
	}
}

func commandsPerMode(modes int) int {
	if *flagCommands > 0 {
		return *flagCommands
	}
	n, err := strconv.Atoi(os.Getenv("CINCH_DIFF_COMMANDS"))
	if err != nil {
		n = codectest.Amount(8_000, 8_000, 100_000)
	}
	return max(1, n/modes)
}

// bench holds two servers or clusters, and the gateways in front of the second.
type bench struct {
	plains, upstreams []*testenv.RedisServer
	tags              []string // of keys, for each connection; nil: no cluster
	first, second     runner
	twice, pieces     bool

	census census
	ended  map[documented]int
}

func newBench(t *testing.T, m mode) *bench { return newBenchOf(t, m, testenv.RedisLines[0]) }

// newBenchOf is newBench with servers of a given version.
func newBenchOf(t *testing.T, m mode, l testenv.RedisLine, args ...string) *bench {
	b := &bench{
		plains: []*testenv.RedisServer{l.Start(t, args...)}, upstreams: []*testenv.RedisServer{l.Start(t, args...)},
		twice: len(m.after) > 0, ended: map[documented]int{},
	}
	b.pieces = m.pieces
	b.first = b.runner(t, m.gateways)
	if b.twice {
		b.second = b.runner(t, m.after)
	}
	return b
}

func (b *bench) runner(t *testing.T, configs []testenv.GatewayConfig) runner {
	var r runner
	var addrs []string
	seed := testenv.Seed(t)
	for i, cfg := range configs {
		cfg.Upstream = b.upstreams[0].Addr
		if !b.pieces {
			addrs = append(addrs, testenv.Gateway(t, cfg).Addr)
			continue
		}
		cfg.Upstream = inPieces(t, cfg.Upstream, seed+uint64(i)<<40)
		addrs = append(addrs, inPieces(t, testenv.Gateway(t, cfg).Addr, seed+uint64(i)<<41))
	}
	for i := range connections {
		r.plain.addrs[i] = b.plains[0].Addr
		r.gateway.addrs[i] = addrs[i%len(addrs)]
	}
	t.Cleanup(func() { r.plain.close(); r.gateway.close() })
	return r
}

// rounds runs at least n commands, and empties the stores before each round.
func (b *bench) rounds(t *testing.T, seed uint64, n int) {
	for round := uint64(0); b.commands() < n; round++ {
		size := min(perRound, n-b.commands())
		steps := newGenerator(seed+round, b.tags).stream(size)
		var later []step
		if b.twice {
			half := len(steps) / 2
			steps = newGenerator(seed+round, b.tags).stream(half)
			later = newGenerator(seed+round+1<<40, b.tags).stream(half)
		}
		if err := b.round(steps, later); err != nil {
			b.report(t, seed+round, steps, later, err)
			return
		}
	}
	t.Logf("%d commands; %d of %d stored values sealed; documented differences that ended a stream: %v",
		b.commands(), b.census.sealed, b.census.values, b.ended)
}

func (b *bench) commands() int { return b.first.done + b.second.done }

// round runs one stream on empty stores and then compares the stored data.
func (b *bench) round(steps, later []step) error {
	if err := b.empty(); err != nil {
		return err
	}
	err := b.compare(&b.first, steps)
	if err == nil && len(later) > 0 {
		err = b.compare(&b.second, later)
	}
	if d := documented(""); errors.As(err, &d) {
		b.ended[d]++
		return nil
	}
	return err
}

func (b *bench) compare(r *runner, steps []step) error {
	if err := r.run(steps); err != nil {
		return err
	}
	for i, addr := range r.gateway.addrs {
		if err := sameContents(r.plain.addrs[i], addr); err != nil {
			return &difference{at: len(steps) - 1, what: "what is stored differs: " + err.Error()}
		}
	}
	for _, s := range b.upstreams {
		if err := b.census.count(s.Addr); err != nil {
			return &difference{at: len(steps) - 1, what: err.Error()}
		}
	}
	return nil
}

// empty removes all data of earlier rounds from both servers, except scripts and functions: a gateway
// remembers those and would not notice that they were flushed.
func (b *bench) empty() error {
	for _, s := range slices.Concat(b.plains, b.upstreams) {
		c, err := dial(s.Addr)
		if err != nil {
			return err
		}
		_, err = c.do("FLUSHALL")
		c.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// report prints the shortest stream that still shows a difference.
func (b *bench) report(t *testing.T, seed uint64, steps, later []step, err error) {
	var d *difference
	if !errors.As(err, &d) {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Errorf("seed %d: %v\n%s", seed, err, around(steps, later, d.at))
	last, sort := err, d.sort
	fails := func(first, second []step) bool {
		e := b.round(first, second)
		if d := new(difference); errors.As(e, &d) && d.sort == sort {
			last = e
			return true
		}
		return false
	}
	if len(later) > 0 {
		later = shrink(later, func(s []step) bool { return fails(steps, s) }, shrinkTries/3)
	}
	steps = shrink(steps, func(s []step) bool { return fails(s, later) }, shrinkTries)
	t.Fatalf("seed %d, shortest form: %v\n%s%s", seed, last, describe(steps), describe(later))
}

func around(steps, later []step, at int) string {
	if len(later) > 0 {
		return ""
	}
	return fmt.Sprintf("after\n%s", describe(steps[max(0, at-5):at+1]))
}
