package plan

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/test/testenv"
)

// slow is a codec that waits, as all do on a busy machine.
type slow struct{ wait time.Duration }

func (s slow) seal(dst, value []byte, worth func(raw, sealed int) bool) []byte {
	time.Sleep(s.wait)
	return append(dst, value[:len(value)/2]...)
}

func (s slow) open(dst, stored []byte) ([]byte, error) {
	time.Sleep(s.wait)
	return append(append(dst, stored...), stored...), nil
}

// Time that a value waits for other work is not CPU of its codec.
func TestWaitingIsNoCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no account of their own")
	}
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Hour
		w := &measurement{sealer: slow{wait}, rules: &rules{cost: plainCost, minSize: 64, minGain: 0.1}}
		value := make([]byte, 200)
		m, err := w.measure(t.Context(), subjectsOf([][]byte{value, value, value, value}), 4)
		if err != nil || m.Sealed != 4 {
			t.Fatalf("%+v: %v", m, err)
		}
		if most := wait.Seconds() / 2; m.CompressSeconds > most || m.OpenSeconds > most {
			t.Errorf("values that wait %v take %v and %v of CPU", wait, m.CompressSeconds, m.OpenSeconds)
		}
	})
}

// randomGroup has candidates of all kinds, with arbitrary figures.
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

// For any goal, no other candidate that may be chosen is better than the recommended one in both bytes and
// CPU; and a group that is left alone shows the possible gain.
func TestChoiceIsOnTheFront(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	link, _ := ParseLink("100mbit,1ms")
	groups, chosen := codectest.Amount(500, 1000, 4000), 0
	if testenv.RaceDetector {
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
			if x.Ruled == "" && x.After <= o.After && p.cpuPerValue(x) <= p.cpuPerValue(o) && (x.After < o.After || p.cpuPerValue(x) < p.cpuPerValue(o)) {
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
	g := &GroupPlan{Now: 15e6, Mean: 50e3, wire: reads * 50e3, Choice: -1, Best: -1}
	bill := func(ratio, cores float64) price.Bill {
		return price.Bill{Storage: p.Prices.Memory(15e6 / ratio), Traffic: p.Prices.Traffic(g.wire / ratio * p.Layout.Crossing()), CPU: p.Prices.CPU(cores)}
	}
	g.BillNow = bill(1, 0)
	for _, c := range []struct {
		ratio, in, out float64
		level          int
	}{{22.6, 90, 9, 3}, {23.1, 900, 9, 9}, {9, 20, 12, 1}} {
		o := Option{After: int64(15e6 / c.ratio), StoredMean: 50e3 / c.ratio, CompressMicros: c.in, OpenMicros: c.out, operations: reads, Cores: reads * c.out / 1e6}
		o.candidate = Candidate{Setting: codec.Setting{Codec: codec.Zstd, Level: c.level}}
		o.Bill = bill(c.ratio, o.Cores)
		g.Options = append(g.Options, o)
	}
	return g
}

// Balance minimizes the bill, and prefers less CPU among similar bills. Menus that get 22 times smaller are
// compressed at any rate of reads if reads cross zones. They are left alone if the CPU for reads costs more than the
// memory. A level that takes ten times as much CPU for 2 % of the bytes is not chosen.
func TestBalanceIsTheBill(t *testing.T) {
	for _, c := range []struct {
		reads  float64
		zones  int
		chosen bool
	}{
		{0, 1, true},
		{1, 1, true},
		{700, 1, false},
		{20000, 1, false},
		{0, 3, true},
		{1, 3, true},
		{700, 3, true},
		{20000, 3, true},
		{100000, 3, true},
	} {
		for _, goal := range []Objective{Balance, MinCost} {
			p := &planner{Options: options(t)}
			p.Minimize, p.Layout = goal, price.Layout{Zones: c.zones}
			g := menus(p, c.reads)
			if p.choose(g); g.Choice >= 0 != c.chosen {
				t.Errorf("%s, %v reads a second, %d zones: %d, %s", goal, c.reads, c.zones, g.Choice, g.Why)
			}
			if goal == Balance && c.reads == 0 && g.Choice != 0 {
				t.Errorf("ten times the CPU for 2 %% of the bytes: %d", g.Choice)
			}
		}
	}
}

// The objective and the limits decide.
func TestChoose(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	var lines strings.Builder
	for range codectest.Amount(40, 40, 300) {
		var items []string
		for range 150 {
			items = append(items, order(r))
		}
		lines.WriteString("[" + strings.Join(items, ",") + "]\n")
	}
	file := write(t, dir, "big.jsonl", []byte(lines.String()))
	fast, _ := ParseLink("10gbit,0ms")
	slow, _ := ParseLink("10mbit,1ms")
	with := func(change func(*Options)) *GroupPlan {
		o := options(t)
		o.NoDictionaries = true
		change(&o)
		return planFiles(t, o, FileOptions{}, file).Groups[0]
	}
	least := with(func(o *Options) { o.Minimize = MinBytes })
	for _, o := range least.Options {
		// Half a percent of the plain bytes is given up for less CPU, and CPU is measured.
		if !o.Comparison && o.After < least.After()-least.Now/200 {
			t.Errorf("%s takes %d, and %s was chosen with %d", o.Name, o.After, least.Chosen().Name, least.After())
		}
	}
	if g := with(func(o *Options) { o.Minimize, o.Links = MinLatency, []Link{slow} }); g.Chosen() == nil || g.Chosen().Latency[0].ReadMicros >= 0 {
		t.Errorf("on a slow link: %s", g.Why)
	}
	if g := with(func(o *Options) { o.MaxCPU = time.Nanosecond }); g.Choice >= 0 || !strings.Contains(g.Why, "CPU") {
		t.Errorf("without any CPU: %d %s", g.Choice, g.Why)
	}
	if g := with(func(o *Options) { o.MaxLatency, o.Links = time.Microsecond, []Link{fast} }); g.Choice >= 0 || !strings.Contains(g.Why, "adds more than") {
		t.Errorf("on a fast link: %d %s", g.Choice, g.Why)
	}
	if g := with(func(o *Options) { o.Minimize, o.Rates = MinCost, Rates{1e9, 1e9} }); g.Choice >= 0 {
		t.Errorf("at a price of CPU far above that of bytes: %s", g.Chosen().Name)
	}
	front := 0
	for _, o := range least.Options {
		if o.Front {
			front++
		}
	}
	if front == 0 || front == len(least.Options) {
		t.Errorf("%d of %d on the front", front, len(least.Options))
	}
}
