package plan

import "math"

// The default objective is the money that the report prints, with a preference for less CPU among settings that cost
// about the same:
//
//	storage and traffic × (1 + CPU of a value / base) ^ exchange  +  CPU
//
// The power makes CPU count where it costs next to nothing: twice as much of it for a value, with what a gateway
// takes for it anyhow, has to save another 3 % of the bytes. It has no border that a measurement could fall on either
// side of: a fifth more CPU weighs 0.8 %. The score is never below the bill, so what is recommended by it never costs more
// than leaving the values alone.
const (
	exchange   = 0.044 // 2^-0.044 is 0.97
	baseMicros = 0.2   // of CPU that a value takes in a gateway in any case
)

// balance is the score of a candidate.
func (p *planner) balance(g *GroupPlan, o *Option) float64 {
	bytes := o.Bill.Storage + o.Bill.Traffic
	if g.unpriced() {
		bytes = float64(o.After)
	}
	return bytes*math.Pow(1+p.micros(o)/baseMicros, exchange) + o.Bill.CPU
}

// unpriced reports whether a group has no bill because nobody knows how often what is done: then bytes count, which nothing
// stands against.
func (g *GroupPlan) unpriced() bool { return g.BillNow.Total() == 0 && g.wire == 0 }

// micros is CPU of a value, on average over reads and writes.
func (p *planner) micros(o *Option) float64 {
	if o.operations > 0 {
		return o.Cores / o.operations * 1e6
	}
	return (o.CompressMicros + o.OpenMicros) / 2
}
