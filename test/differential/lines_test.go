package differential

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var flagLines = flag.Bool("diff.lines", false, "run every mode of TestLines, and more of TestEveryCommand, on every line of servers")

// TestLines runs TestDifferential on the other versions of servers: in one mode each, or in all with a
// flag.
func TestLines(t *testing.T) {
	testenv.Full(t)
	seed := testenv.Seed(t)
	for i, l := range testenv.RedisLines[1:] {
		all := modes()
		n := commandsPerMode(len(all) * 3)
		if !*flagLines {
			m := 1 + (seed+uint64(i))%3 // rules, force, off
			all = all[m : m+1]
		}
		for _, m := range all {
			t.Run(l.Name+"/"+m.name, func(t *testing.T) {
				t.Logf("-seed %d, %d commands", seed, n)
				newBenchOf(t, m, l).rounds(t, seed+uint64(i)<<32, n)
			})
		}
	}
}

// TestEveryCommand generates every documented command of a server, with arguments as documented.
func TestEveryCommand(t *testing.T) {
	seed := testenv.Seed(t)
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		var modules []string
		if l.Name == "redis-7.4" {
			modules = testenv.RedisModules(t, "rejson", "redistimeseries", "redisbloom")
		}
		force := mode{gateways: []testenv.GatewayConfig{{Force: true, Rules: "- {name: all, type: [string, hash, stream], setting: zstd-3}"}}}
		b := newBenchOf(t, force, l, modules...)
		d := newDrawer(seed, docCommands(t, b.plains[0]))
		turns := 10
		if *flagLines {
			turns = 200
		}
		t.Logf("-seed %d, %d commands, each about %d times", seed, len(d.commands), turns)
		b.drawn(t, seed, d, turns*len(d.commands))
	})
}

// drawnRound is the number of commands of a stream: a documented refusal ends a stream.
const drawnRound = 150

func (b *bench) drawn(t *testing.T, seed uint64, d *drawer, n int) {
	t.Helper()
	b.first.answered = map[string]bool{}
	for b.commands() < n {
		steps := slices.Clone(d.stream(drawnRound))
		if err := b.round(steps, nil); err != nil {
			b.report(t, seed, steps, nil, err)
			return
		}
	}
	if b.census.sealed == 0 {
		t.Error("nothing was sealed")
	}
	b.covers(t, d)
	t.Logf("%d commands; %d of %d stored values sealed; documented differences that ended a stream: %v",
		b.commands(), b.census.sealed, b.census.values, b.ended)
}

// covers checks that the server has executed most of the commands that work on values.
func (b *bench) covers(t *testing.T, d *drawer) {
	t.Helper()
	var all int
	var refused []string
	for i := range d.commands {
		c := &d.commands[i]
		if !slices.Contains([]string{"string", "hash", "bitmap", "stream"}, c.group) {
			continue
		}
		if all++; !b.first.answered[strings.ToLower(c.words[0])] {
			refused = append(refused, c.name())
		}
	}
	if len(refused) > all/5 {
		t.Errorf("%d of %d commands on values were refused each time: %v", len(refused), all, refused)
	}
	t.Logf("%d commands on values, refused each time: %v", all, refused)
}
