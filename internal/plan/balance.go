package plan

import "math"

// The objective that is the default is what somebody would choose by hand:
//
//	worth of the bytes × (1 + CPU of a value / base) ^ exchange  +  CPU that nobody has to spare
//
// Bytes are worth what they cost where they are held and between zones, and within a zone what
// the network that they fill costs. CPU is spare up to a share of freeCores: no server is full
// to the last tenth of a core, and cents a month decide nothing. What is above has its price.
// The power makes CPU count where it costs nothing, too: twice as much of it for a value, with what a
// gateway takes for it anyhow, has to save another 3 % of the bytes. It has no border that a
// measurement could fall on either side of: a fifth more CPU is worth 0.8 % of the bytes.
const (
	exchange    = 0.044 // 2^-0.044 is 0.97
	freeCores   = 0.5   // of all groups together, by their bytes
	freeAtLeast = 0.02  // cores that any group has free
	baseMicros  = 0.2   // of CPU that a value takes in a gateway in any case
)

// balance is the score of a candidate.
func (p *planner) balance(g *GroupPlan, o *Option) float64 {
	return p.worth(g, o)*math.Pow(1+p.micros(o)/baseMicros, exchange) + p.busy(g, o)
}

// worth is what the bytes are worth with a candidate, in dollars a month; in bytes where they
// cost nothing.
func (p *planner) worth(g *GroupPlan, o *Option) float64 {
	if p.worthless(g) {
		return float64(o.After)
	}
	return o.Bill.Storage + o.Bill.Traffic + p.Prices.Network(o.wire)
}

// worthNow is what they are worth as they are.
func (p *planner) worthNow(g *GroupPlan) float64 {
	if p.worthless(g) {
		return float64(g.Now)
	}
	return g.BillNow.Storage + g.BillNow.Traffic + p.Prices.Network(g.wire)
}

func (p *planner) worthless(g *GroupPlan) bool {
	return g.BillNow.Storage+g.BillNow.Traffic+p.Prices.Network(g.wire) <= 0
}

// busy is what CPU costs beyond what is spare.
func (p *planner) busy(g *GroupPlan, o *Option) float64 {
	if p.worthless(g) {
		return 0
	}
	free := max(freeAtLeast, freeCores*float64(g.Now)/max(p.now, 1))
	return p.Prices.CPU(max(o.Cores-free, 0))
}

// micros is CPU of a value, on average over reads and writes.
func (p *planner) micros(o *Option) float64 {
	if o.operations > 0 {
		return o.Cores / o.operations * 1e6
	}
	return (o.CompressMicros + o.OpenMicros) / 2
}
