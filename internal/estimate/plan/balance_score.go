package plan

import "math"

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
	return bytes*math.Pow(1+p.micros(o)/baseMicros, exchange) + o.Bill.CPU
}

// unpriced reports whether a group has no bill because its rates are unknown. Then its bytes count, weighed
// only against CPU.
func (g *GroupPlan) unpriced() bool { return g.BillNow.Total() == 0 && g.wire == 0 }

// micros returns the CPU per value, averaged over reads and writes.
func (p *planner) micros(o *Option) float64 {
	if o.operations > 0 {
		return o.Cores / o.operations * 1e6
	}
	return (o.CompressMicros + o.OpenMicros) / 2
}
