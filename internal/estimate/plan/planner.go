package plan

import (
	"github.com/cinch-layer/cinch/internal/config/price"
)

type planner struct {
	Options
	foreign  bool // client libraries may have compressed values
	memories map[memoryKey]Memory
	room     []byte  // buffer for compressed values while measuring
	now      float64 // bytes of all groups
}

func (p *planner) progress(done float64, what string) {
	if p.Progress != nil {
		p.Progress(done, "measuring "+what)
	}
}

// rates returns the rates that were given, or else observed, or else assumed.
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

// Rates per value and day to assume if they are unknown.
const (
	assumedWrites = 1
	assumedReads  = 10
)
