package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// A recommendation has to save at least this share of the bytes, and this share of the score to minimize.
const (
	minSaving    = 0.05
	minGainShare = 0.01

	minShown = 0.005 // share of the bytes that candidates on the front save at least
)

// savesTooLittle is the reason to rule out a candidate that hardly saves.
const savesTooLittle = "saves less than 5%"

// choose marks the Pareto front and picks the candidate on it with the smallest score within the limits, or
// none.
func (p *planner) choose(g *GroupPlan) {
	for i := range g.Options {
		o := &g.Options[i]
		o.Ruled = p.ruledOut(g, o)
	}
	p.front(g)
	g.Best = p.best(g, func(o *Option) bool {
		return !o.Comparison && (g.Range == nil || o.Ruled == "" || o.Ruled == savesTooLittle || p.isRuledOutByLoss(g, o))
	})
	best := p.best(g, func(o *Option) bool { return o.Ruled == "" && o.Front })
	switch {
	case best < 0:
		g.leave(p.whyNone(g))
	case p.gain(g, &g.Options[best]) < minGainShare:
		g.leave(p.whyNotWorth(g))
	default:
		g.Choice, g.Best = best, best
		g.Why = p.why(g, best)
	}
}

// best returns the candidate with the best score among those allowed, or -1 if there are none. For cost and
// latency, which are measured, it returns the one with the least CPU among those within half a percent of the
// best: these differ by less than the precision of the measurement. Balance includes CPU itself, and bytes
// are exact.
func (p *planner) best(g *GroupPlan, may func(*Option) bool) int {
	best, least := -1, math.Inf(1)
	for i := range g.Options {
		o := &g.Options[i]
		if !may(o) {
			continue
		}
		if s := p.score(g, o); s < least || s == least && best >= 0 && p.cpuPerValue(o) < p.cpuPerValue(&g.Options[best]) {
			best, least = i, s
		}
	}
	if p.Minimize == Balance || p.Minimize == MinBytes {
		return best
	}
	alike := least + 0.005*math.Abs(p.baseline(g))
	for i := range g.Options {
		if o := &g.Options[i]; may(o) && p.score(g, o) <= alike && p.cpuPerValue(o) < p.cpuPerValue(&g.Options[best]) {
			best = i
		}
	}
	return best
}

// score returns the quantity to minimize.
func (p *planner) score(g *GroupPlan, o *Option) float64 {
	switch p.Minimize {
	case MinBytes:
		return float64(o.After)
	case MinLatency:
		if len(p.Links) == 0 {
			return 0
		}
		return p.baseline(g) + o.Latency[0].ReadMicros + o.Latency[0].WriteMicros
	case MinCost:
		if g.unpriced() {
			return float64(o.After)
		}
		return o.Bill.Total()
	}
	return p.balance(g, o)
}

// baseline returns the score of uncompressed values.
func (p *planner) baseline(g *GroupPlan) float64 {
	switch p.Minimize {
	case MinBytes:
		return float64(g.Now)
	case MinLatency:
		if len(p.Links) == 0 {
			return 0
		}
		return 2 * p.Links[0].seconds(g.Mean) * 1e6
	}
	if g.unpriced() {
		return float64(g.Now)
	}
	return g.BillNow.Total()
}

// gain returns by how much a candidate lowers the score, as a share of it.
func (p *planner) gain(g *GroupPlan, o *Option) float64 {
	plain := p.baseline(g)
	if plain == 0 {
		return 0
	}
	return (plain - p.score(g, o)) / math.Abs(plain)
}

// cpuPerValue returns the CPU per value: of a write and its share of reads.
func (p *planner) cpuPerValue(o *Option) float64 {
	if o.Cores > 0 {
		return o.Cores
	}
	return o.CompressMicros + o.OpenMicros
}

// ruledOut returns why a candidate may not be chosen, or "" if it may.
func (p *planner) ruledOut(g *GroupPlan, o *Option) string {
	took := time.Duration((o.CompressMicros + o.OpenMicros) * 1e3)
	switch {
	case o.Comparison:
		return "for comparison only"
	case (o.candidate.encoding == encodingPair || o.candidate.Setting.IsProto()) && !p.Pair:
		return "needs a second gateway beside the server: allow it with --pair"
	case o.candidate.encoding == encodingProtocol && o.candidate.Setting.Codec == codec.Zlib:
		return "makes servers up to 8.2.2 leak memory"
	case o.candidate.encoding == encodingProtocol && o.candidate.Setting.Codec != codec.Snappy && o.candidate.Setting.Codec != codec.Zstd:
		return "is not supported by MongoDB"
	case float64(g.Now-o.After) < minSaving*float64(g.Now):
		return savesTooLittle
	case p.MaxCPU > 0 && took > p.MaxCPU:
		return fmt.Sprintf("takes more than %v of CPU", p.MaxCPU)
	case p.MaxCores > 0 && o.Cores > p.MaxCores:
		return fmt.Sprintf("takes more than %g cores", p.MaxCores)
	case p.MaxLatency > 0 && len(o.Latency) > 0 && max(o.Latency[0].ReadMicros, o.Latency[0].WriteMicros) > float64(p.MaxLatency.Microseconds()):
		return fmt.Sprintf("adds more than %v", p.MaxLatency)
	}
	return p.lossReason(g, o)
}

// whyNone returns why no candidate is left.
func (p *planner) whyNone(g *GroupPlan) string {
	limits := ""
	for i := range g.Options {
		o := &g.Options[i]
		if o.Comparison {
			continue
		}
		if o.Ruled != savesTooLittle {
			limits = o.Ruled
		}
	}
	switch {
	case g.Range != nil && g.Best >= 0 && p.isRuledOutByLoss(g, &g.Options[g.Best]):
		return g.Options[g.Best].Name + " " + g.Options[g.Best].Ruled
	case limits != "":
		return "every candidate that saves enough " + limits
	case g.Mean < float64(p.MinSize):
		return "values are too small"
	}
	return "compression saves less than 5%"
}

// isRuledOutByLoss reports whether a candidate is ruled out only because it does not pay off with some possible
// number of documents.
func (p *planner) isRuledOutByLoss(g *GroupPlan, o *Option) bool {
	return o.Ruled != "" && o.Ruled == p.lossReason(g, o)
}

func (p *planner) whyNotWorth(g *GroupPlan) string {
	switch {
	case p.Minimize == MinLatency:
		return "reads or writes would get slower"
	case g.BillNow.Total() == 0 && p.Layout.Crossing() == 0:
		return "traffic within a zone is free, and compressing it costs CPU (--cross-zone, --minimize latency)"
	case g.BillNow.Total() == 0:
		return "its traffic is free at these prices, and compressing it costs CPU"
	}
	return "CPU would cost more than it saves"
}

func (p *planner) why(g *GroupPlan, best int) string {
	o := &g.Options[best]
	switch {
	case p.Minimize == MinLatency:
		return fmt.Sprintf("reads %s, writes %s on %s", faster(o.Latency[0].ReadMicros), faster(o.Latency[0].WriteMicros), o.Latency[0].Link)
	case p.Minimize == MinCost && p.Source.Medium != price.OnWire && o.Bill.Traffic < g.BillNow.Traffic:
		return "least cost of storage, traffic and CPU together"
	case p.Minimize == MinCost:
		return "least cost of bytes and CPU together"
	case p.Minimize == MinBytes:
		return fewestReason(g, o) + extraCost(o.Bill.Total()-g.BillNow.Total())
	case fewestReason(g, o) == fewestBytes:
		return fewestBytes + ", at little CPU"
	}
	return "best balance of bytes and CPU"
}

const fewestBytes = "fewest bytes"

// fewestReason returns whether a candidate has the fewest bytes of all, or only of those that may be chosen.
func fewestReason(g *GroupPlan, o *Option) string {
	for i := range g.Options {
		if x := &g.Options[i]; !x.Comparison && x.After < o.After {
			return fewestBytes + " of the allowed candidates"
		}
	}
	return fewestBytes
}

// extraCost returns the extra cost of minimizing bytes.
func extraCost(more float64) string {
	if more <= 0 {
		return ""
	}
	return ", for " + terminal.Dollars(more) + " a month more"
}

// front marks the candidates that no other one beats in both bytes and CPU, among those that may be chosen or
// save too little. A candidate for comparison is marked likewise but beats no other.
func (p *planner) front(g *GroupPlan) {
	counts := func(o *Option) bool { return o.Ruled == "" || o.Ruled == savesTooLittle || p.isRuledOutByLoss(g, o) }
	for i := range g.Options {
		o := &g.Options[i]
		o.Front = float64(o.After) < (1-minShown)*float64(g.Now) && (counts(o) || o.Comparison)
		for j := range g.Options {
			other := &g.Options[j]
			if i != j && counts(other) && other.After <= o.After && p.cpuPerValue(other) <= p.cpuPerValue(o) && (other.After < o.After || p.cpuPerValue(other) < p.cpuPerValue(o)) {
				o.Front = false
			}
		}
	}
}

// The default objective is the money that the report prints, with a preference for less CPU among settings that cost
// about the same:
//
//	storage and traffic × (1 + CPU of a value / base) ^ exchange  +  CPU
//
// The power makes CPU count even if it costs next to nothing: a candidate that takes twice the CPU per value,
// including the base, has to save another 3 % of the bytes. There is no threshold, so a small error of measurement
// has a small effect: a fifth more CPU weighs 0.8 %. The score is never below the bill, so a recommendation by it
// never costs more than leaving the values alone.
const (
	exchange   = 0.044 // 2^-0.044 is 0.97
	baseMicros = 0.2   // CPU that a value takes in a gateway in any case
)

// balance returns the score of a candidate.
func (p *planner) balance(g *GroupPlan, o *Option) float64 {
	bytes := o.Bill.Storage + o.Bill.Traffic
	if g.unpriced() {
		bytes = float64(o.After)
	}
	return bytes*math.Pow(1+p.cpuMicros(o)/baseMicros, exchange) + o.Bill.CPU
}

// unpriced reports whether a group has no bill because its rates are unknown. Then its bytes count, weighed
// only against CPU.
func (g *GroupPlan) unpriced() bool { return g.BillNow.Total() == 0 && g.wire == 0 }

// cpuMicros returns the CPU per value, averaged over reads and writes.
func (p *planner) cpuMicros(o *Option) float64 {
	if o.operations > 0 {
		return o.Cores / o.operations * 1e6
	}
	return (o.CompressMicros + o.OpenMicros) / 2
}
