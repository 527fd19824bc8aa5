package plan

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/cputime"
	"github.com/cinch-layer/cinch/internal/price"
)

// slow is a codec that waits: on a busy machine all of them do.
type slow struct{ wait time.Duration }

func (s slow) seal(dst, value []byte, worth func(raw, sealed int) bool) []byte {
	time.Sleep(s.wait)
	return append(dst, value[:len(value)/2]...)
}

func (s slow) open(dst, stored []byte) ([]byte, error) {
	time.Sleep(s.wait)
	return append(append(dst, stored...), stored...), nil
}

// What a value waits for others is no CPU of its codec.
func TestWaitingIsNoCPU(t *testing.T) {
	if cputime.Of(func() { time.Sleep(20 * time.Millisecond) }) > 10*time.Millisecond {
		t.Skip("threads have no account of their own")
	}
	const wait = 2 * time.Millisecond
	w := &measurement{sealer: slow{wait}, rules: &rules{cost: plainCost, minSize: 64, minGain: 0.1}}
	value := make([]byte, 200)
	m, err := w.measure(t.Context(), asHeld([][]byte{value, value, value, value}), 4)
	if err != nil || m.Sealed != 4 {
		t.Fatalf("%+v: %v", m, err)
	}
	if most := wait.Seconds() / 2; m.CompressSeconds > most || m.OpenSeconds > most {
		t.Errorf("values that wait %v take %v and %v of CPU", wait, m.CompressSeconds, m.OpenSeconds)
	}
}

// randomGroup has candidates of all kinds, with figures that need not make sense.
func randomGroup(p *planner, r *rand.Rand) *GroupPlan {
	g := &GroupPlan{Now: 1 + r.Int64N(1<<30), Mean: 10 + 1e5*r.Float64(), wire: 1e6 * r.Float64(), Choice: -1, Best: -1}
	g.BillNow = price.Bill{Storage: p.Prices.Memory(float64(g.Now))}
	reads, writes := 1e4*r.Float64(), 1e3*r.Float64()
	for range 1 + r.IntN(14) {
		share := 0.03 + 1.1*r.Float64()
		o := Option{
			After: int64(share * float64(g.Now)), StoredMean: share * g.Mean, wire: g.wire * share * (0.8 + 0.4*r.Float64()),
			CompressMicros: 300 * r.Float64(), OpenMicros: 60 * r.Float64(), Comparison: r.IntN(8) == 0, operations: reads + writes,
		}
		o.candidate = Candidate{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
		o.Cores = (o.CompressMicros*writes + o.OpenMicros*reads) / 1e6
		o.Bill = price.Bill{Storage: p.Prices.Memory(float64(o.After)), CPU: p.Prices.CPU(o.Cores)}
		for _, l := range p.Links {
			faster := l.seconds(g.Mean) - l.seconds(o.StoredMean)
			o.Latency = append(o.Latency, LinkDelta{ReadMicros: o.OpenMicros - faster*1e6, WriteMicros: o.CompressMicros - faster*1e6})
		}
		g.Options = append(g.Options, o)
	}
	return g
}

// Whatever is wanted, no other candidate that may be chosen is better than the recommended one in
// bytes and CPU both; and a group that is left alone says what could be had.
func TestChoiceIsOnTheFront(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	link, _ := ParseLink("100mbit,1ms")
	groups, chosen := 4000, 0
	if underRace {
		groups = 400
	}
	for range groups {
		p := &planner{Options: options(t), now: 1 << 30}
		p.Minimize = []Objective{Balance, MinCost, MinLatency, MinBytes}[r.IntN(4)]
		p.Links = []Link{link}
		if r.IntN(3) == 0 {
			p.MaxCPU = time.Duration(r.IntN(300)) * time.Microsecond
		}
		if r.IntN(3) == 0 {
			p.MaxLatency = time.Duration(r.IntN(300)) * time.Microsecond
		}
		g := randomGroup(p, r)
		p.choose(g)
		if g.Choice < 0 {
			if g.best() == nil && !allCompared(g) {
				t.Fatalf("%s: nothing is said of what could be had: %+v", p.Minimize, g)
			}
			continue
		}
		chosen++
		o := g.Chosen()
		if !o.Front || o.Comparison || o.Ruled != "" {
			t.Fatalf("%s: chosen is %+v", p.Minimize, o)
		}
		for i := range g.Options {
			x := &g.Options[i]
			if x.Ruled == "" && x.After <= o.After && p.work(x) <= p.work(o) && (x.After < o.After || p.work(x) < p.work(o)) {
				t.Fatalf("%s: %+v is better than what was chosen, %+v", p.Minimize, x, o)
			}
		}
	}
	if chosen < groups/8 {
		t.Errorf("only %d of %d have a choice", chosen, groups)
	}
}

func allCompared(g *GroupPlan) bool {
	for i := range g.Options {
		if !g.Options[i].Comparison {
			return false
		}
	}
	return true
}

// menus is a group of 15 MB in memory that one candidate makes 22.6 times smaller.
func menus(p *planner, reads float64) *GroupPlan {
	p.now = 15e6
	g := &GroupPlan{Now: 15e6, Mean: 50e3, wire: reads * 50e3, Choice: -1, Best: -1}
	g.BillNow = price.Bill{Storage: p.Prices.Memory(15e6)}
	for _, c := range []struct {
		ratio, in, out float64
		level          int
	}{{22.6, 90, 9, 3}, {23.1, 900, 9, 9}, {9, 20, 12, 1}} {
		after := 15e6 / c.ratio
		o := Option{After: int64(after), StoredMean: 50e3 / c.ratio, CompressMicros: c.in, OpenMicros: c.out, wire: g.wire / c.ratio, operations: reads}
		o.candidate = Candidate{Setting: codec.Setting{Codec: codec.Zstd, Level: c.level}}
		o.Cores = reads * c.out / 1e6
		o.Bill = price.Bill{Storage: p.Prices.Memory(after), CPU: p.Prices.CPU(o.Cores)}
		g.Options = append(g.Options, o)
	}
	return g
}

// Cents don't decide: menus that get 22 times smaller are compressed at any rate of reads, even
// where the CPU costs more than the memory, and without a level that costs ten times as much
// for nothing. Cost alone is still there to be asked for.
func TestBalanceIsNotAboutCents(t *testing.T) {
	for _, reads := range []float64{1, 700, 20000, 100000} {
		p := &planner{Options: options(t)}
		p.Minimize = Balance
		g := menus(p, reads)
		if p.choose(g); g.Choice != 0 && g.Choice != 1 {
			t.Errorf("at %v reads a second: %d, %s", reads, g.Choice, g.Why)
		}
	}
	p := &planner{Options: options(t)}
	p.Minimize = MinCost
	g := menus(p, 20000)
	if p.choose(g); g.Choice >= 0 {
		t.Errorf("for cost alone: %s", g.Why)
	}
	p.Minimize = Balance
	g = menus(p, 0) // nobody reads: CPU is that of writes as well as reads
	for i := range g.Options {
		g.Options[i].operations, g.Options[i].Cores = 0, 0
	}
	if p.choose(g); g.Choice != 0 {
		t.Errorf("ten times the CPU for 2 %% of the bytes: %d", g.Choice)
	}
	// CPU that nothing pays for is too much: a microsecond saved a byte, a million times a second.
	g = menus(p, 1e6)
	g.wire = 0
	for i := range g.Options {
		g.Options[i].wire, g.Options[i].Cores = 0, 50
	}
	if p.choose(g); g.Choice >= 0 {
		t.Errorf("50 cores for 15 MB: %s", g.Why)
	}
}
