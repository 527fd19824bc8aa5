package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/price"
)

// A recommendation has to be worth the trouble: this share of the bytes, and this share of
// what is to be as small as possible.
const (
	leastSaving = 0.05
	leastGain   = 0.01

	leastShown = 0.005 // of the bytes, saved by what may be on the front
)

// choose marks the front and picks the candidate that makes the objective smallest within
// the limits, or none. Among those within half a percent of the best it takes the one that
// costs the least CPU: they differ by less than they were measured to.
func (p *planner) choose(g *GroupPlan) {
	p.front(g)
	plain := p.score(g, nil)
	best, least := -1, math.Inf(1)
	for i := range g.Options {
		o := &g.Options[i]
		if o.Ruled = p.ruledOut(g, o); o.Ruled == "" && p.score(g, o) < least {
			best, least = i, p.score(g, o)
		}
	}
	for i := range g.Options {
		o := &g.Options[i]
		if o.Ruled == "" && p.score(g, o) <= least+0.005*math.Abs(plain) && p.work(o) < p.work(&g.Options[best]) {
			best = i
		}
	}
	switch {
	case best < 0:
		g.leave(p.whyNone(g))
	case p.score(g, &g.Options[best]) > plain-leastGain*math.Abs(plain):
		g.leave(p.notWorth())
	default:
		g.Choice = best
		g.Why = p.why(g, best)
	}
}

// score is what is to be small; o is nil for values as they are.
func (p *planner) score(g *GroupPlan, o *Option) float64 {
	switch p.Minimize {
	case MinBytes:
		if o == nil {
			return float64(g.Now)
		}
		return float64(o.After)
	case MinLatency:
		if len(p.Links) == 0 {
			return 0
		}
		plain := p.Links[0].seconds(g.Mean) * 1e6
		if o == nil {
			return 2 * plain
		}
		return 2*plain + o.Latency[0].ReadMicros + o.Latency[0].WriteMicros
	default:
		if o == nil {
			return g.BillNow.Total()
		}
		return o.Bill.Total()
	}
}

// work is CPU a value: a write and what reads come with it.
func (p *planner) work(o *Option) float64 {
	if o.Cores > 0 {
		return o.Cores
	}
	return o.CompressMicros + o.OpenMicros
}

// ruledOut says why a candidate may not be chosen, "" when it may.
func (p *planner) ruledOut(g *GroupPlan, o *Option) string {
	took := time.Duration((o.CompressMicros + o.OpenMicros) * 1e3)
	switch {
	case o.Comparison:
		return "for comparison only"
	case o.candidate.way == wayPair && !p.Pair:
		return "takes a gateway beside the server, too: --pair allows it"
	case o.candidate.way == wayProtocol && o.candidate.Setting.Codec == codec.Zlib:
		return "servers up to 8.2.2 leak memory by it"
	case o.candidate.way == wayProtocol && o.candidate.Setting.Codec != codec.Snappy && o.candidate.Setting.Codec != codec.Zstd:
		return "MongoDB does not have it"
	case float64(g.Now-o.After) < leastSaving*float64(g.Now):
		return "saves less than 5%"
	case p.MaxCPU > 0 && took > p.MaxCPU:
		return fmt.Sprintf("takes more than %v of CPU", p.MaxCPU)
	case p.MaxCores > 0 && o.Cores > p.MaxCores:
		return fmt.Sprintf("takes more than %g cores", p.MaxCores)
	case p.MaxLatency > 0 && len(o.Latency) > 0 && max(o.Latency[0].ReadMicros, o.Latency[0].WriteMicros) > float64(p.MaxLatency.Microseconds()):
		return fmt.Sprintf("adds more than %v", p.MaxLatency)
	}
	return ""
}

// whyNone says why no candidate is left.
func (p *planner) whyNone(g *GroupPlan) string {
	limits := ""
	for i := range g.Options {
		o := &g.Options[i]
		if o.Comparison {
			continue
		}
		if o.Ruled != "saves less than 5%" {
			limits = o.Ruled
		}
	}
	switch {
	case limits != "":
		return "all that saves " + limits
	case g.Mean < float64(p.MinSize):
		return "values are too small"
	}
	return "compression saves less than 5%"
}

func (p *planner) notWorth() string {
	if p.Minimize == MinLatency {
		return "it would get slower"
	}
	return "CPU would cost more than it saves"
}

func (p *planner) why(g *GroupPlan, best int) string {
	o := &g.Options[best]
	switch {
	case p.Minimize == MinLatency:
		return fmt.Sprintf("reads %s, writes %s on %s", faster(o.Latency[0].ReadMicros), faster(o.Latency[0].WriteMicros), o.Latency[0].Link)
	case p.Minimize == MinCost && p.Source.Medium != price.OnWire && o.Bill.Traffic < g.BillNow.Traffic:
		return "least for storage, traffic and CPU together"
	case p.Minimize == MinCost:
		return "least for bytes and CPU together"
	}
	return "fewest bytes"
}

func faster(micros float64) string {
	if micros < 0 {
		return fmt.Sprintf("%.0f us faster", -micros)
	}
	return fmt.Sprintf("%.0f us slower", micros)
}

// front marks the candidates that no other one beats in bytes and in the CPU of a value, in
// and out.
func (p *planner) front(g *GroupPlan) {
	cpu := func(o *Option) float64 { return o.CompressMicros + o.OpenMicros }
	for i := range g.Options {
		o := &g.Options[i]
		o.Front = float64(o.After) < (1-leastShown)*float64(g.Now)
		for j := range g.Options {
			other := &g.Options[j]
			if i != j && other.After <= o.After && cpu(other) <= cpu(o) && (other.After < o.After || cpu(other) < cpu(o)) {
				o.Front = false
			}
		}
	}
}
