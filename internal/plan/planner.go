package plan

import (
	"github.com/cinch-layer/cinch/internal/price"
)

type planner struct {
	Options
	foreign  bool // values may be those that client libraries have compressed
	memories map[memoryKey]Memory
	room     []byte  // for what is sealed while it is measured
	now      float64 // bytes of all groups
}

func (p *planner) progress(done float64, what string) {
	if p.Progress != nil {
		p.Progress(done, "measuring "+what)
	}
}

// rates are those that were given, or observed, or assumed.
func (p *planner) rates(values float64) Rates {
	r := p.Rates
	if r == (Rates{}) {
		r = p.Source.Rates
	}
	if r == (Rates{}) && p.Source.Medium != price.OnWire {
		r = Rates{Reads: values * assumedReads / 86400, Writes: values * assumedWrites / 86400}
	}
	return r
}

// What is assumed about values when nobody knows the rates, each a day.
const (
	assumedWrites = 1
	assumedReads  = 10
)
