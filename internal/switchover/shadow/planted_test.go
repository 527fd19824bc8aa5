package shadow

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

var plantedRuns = flag.Int("planted.runs", 20, "runs with each planted fault")

// Traffic of a run: pairs of a write and a read of the written key, by a few clients.
const (
	plantedClients = 4
	plantedKeys    = 12
	plantedPairs   = 60
)

// planted is a run with a fault at one of the targets.
type planted struct {
	rnd        *rand.Rand
	place      int // of the target
	kv         *kv
	cfg        Config
	run        *Run
	clients    [plantedClients]clientConn
	production *kvServer

	plant  *Plant // in the path to the target
	unread bool   // no written key is read
	middle func() // called in the middle of the traffic
}

func newPlanted(seed uint64) *planted {
	p := &planted{rnd: rand.New(rand.NewPCG(seed, 17)), kv: newKV(), production: newKVServer()}
	p.place = p.rnd.IntN(targets)
	p.cfg = Config{Protocol: p.kv, Bound: time.Hour, DataCheck: DataOff}
	for i := range p.clients {
		p.clients[i].number = uint64(i + 1)
	}
	return p
}

func (p *planted) server() *kvServer { return p.kv.servers[p.place] }

// nth returns the number of a random write or read.
func (p *planted) nth() int { return 1 + p.rnd.IntN(plantedPairs) }

// play runs the traffic, and returns the run's report.
func (p *planted) play(t *testing.T) *Report {
	t.Helper()
	p.run = New(p.cfg)
	p.run.mirror.targets[p.place].planted.Store(p.plant)
	if err := p.run.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range plantedPairs {
		if i == plantedPairs/2 && p.middle != nil {
			p.middle()
		}
		key := p.rnd.IntN(plantedKeys)
		if p.unread {
			key = i // no key is written twice
		}
		p.do(fmt.Sprintf("set key%d text%d", key, i))
		if !p.unread {
			p.do(fmt.Sprintf("get key%d", key))
		}
	}
	p.run.Finish("the traffic is over")
	<-p.run.Over()
	return p.run.Report()
}

// do sends a request of a random client to production.
func (p *planted) do(request string) {
	c := &p.clients[p.rnd.IntN(plantedClients)]
	answer, _ := p.production.do(request)
	p.run.tap.put(c, memory.FromClient, []byte(request))
	p.run.tap.put(c, memory.FromUpstream, []byte(answer))
}

// Every fault at one target voids the run each time, and the run reports it.
func TestPlantedFaultsVoid(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*planted)
		why   string // TARGET stands for the target with the fault
	}{
		"a wrong answer":     {func(p *planted) { p.server().wrong = p.nth() }, "answers differ, the first to get (operation "},
		"a lost write":       {func(p *planted) { p.server().loses = p.nth() }, "answers differ, the first to get (operation "},
		"a target that dies": {func(p *planted) { p.server().dies = p.nth() }, "TARGET (tcp://): connection reset by peer"},
		"a drop": {func(p *planted) {
			n := p.nth()
			p.plant = &Plant{Drop: func(op *Operation) bool { return op.number == uint64(n) }}
		}, "the targets did not get the same operations: TARGET left more"},
		"a lost write that no client reads": {func(p *planted) {
			p.server().loses, p.unread, p.cfg.DataCheck = p.nth(), true, DataFull
		}, "the targets' data differ: texts"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range *plantedRuns {
				p := newPlanted(uint64(seed))
				c.plant(p)
				got := p.play(t)
				want := strings.ReplaceAll(c.why, "TARGET", p.run.mirror.targets[p.place].Name)
				if reasons := strings.Join(got.Reasons, "; "); got.Outcome != "VOID" || !strings.Contains(reasons, want) {
					t.Errorf("seed %d: %s %q, want %q; %+v", seed, got.Outcome, reasons, want, got.Compared)
				}
			}
		})
	}
}

// No fault, or one that is not at a single target, does not void a run: a connection that could not be
// followed is only counted.
func TestEqualTargetsAreNotVoid(t *testing.T) {
	for name, c := range map[string]struct {
		plant   func(*planted)
		dropped uint64
	}{
		"no fault": {func(p *planted) { p.cfg.DataCheck = DataFull }, 0},
		"a connection that is given up": {func(p *planted) {
			p.cfg.DataCheck = DataFull
			p.middle = func() { p.run.tap.put(&p.clients[0], memory.FromClient, []byte("noise")) }
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range *plantedRuns {
				p := newPlanted(uint64(seed))
				c.plant(p)
				if got := p.play(t); got.Outcome != "INCONCLUSIVE" || got.Dropped != c.dropped || got.Compared.Equal == 0 || len(got.Data) != 1 {
					t.Errorf("seed %d: %s %q, %d dropped, %+v", seed, got.Outcome, got.Reasons, got.Dropped, got.Compared)
				}
			}
		})
	}
}
