package plan

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config/price"
)

// Objective is the quantity to minimize.
type Objective string

// The objectives. Balance is cost, with a preference for less CPU: see choose.go.
const (
	Balance    Objective = "balance"
	MinCost    Objective = "cost"
	MinLatency Objective = "latency"
	MinBytes   Objective = "bytes"
)

// SourceInfo holds the properties that depend on the kind of source.
type SourceInfo struct {
	Name     string // without credentials
	Protocol string // of a suitable gateway; "" for none
	Medium   price.Medium
	Cost     Cost                      // nil: lengths
	Never    func(value []byte) bool   // values that are never compressed; nil: none
	DictCost func(*codec.Dict) float64 // bytes that the store needs for a dictionary; nil: none, it is kept elsewhere
	Rates    Rates                     // observed; 0: unknown
	Observed Rates                     // observed, even if not trusted
	Doubt    string                    // why Observed is not trusted; "": it is, or there is none
	Whole    bool                      // all of it was read
	Total    int64                     // number of names; 0: unknown
	Bytes    int64                     // of files; 0: unknown
	Items    int64                     // items that the rates count, with several values each; 0: they count values
	Notes    []string                  // for people
}

// dictCost returns the bytes that the store needs for d.
func (s *SourceInfo) dictCost(d *codec.Dict) float64 {
	if s.DictCost == nil {
		return 0
	}
	return s.DictCost(d)
}

// Rates are operations per second on the whole source.
type Rates struct {
	Reads  float64 `json:"reads_per_second"`
	Writes float64 `json:"writes_per_second"`
}

// Options configures what to measure and what to aim for. Engine, Prices and Candidates are required.
type Options struct {
	Source     SourceInfo
	Engine     *codec.Engine
	Train      dict.Trainer // libzstd's; nil: pure Go's
	Candidates []Candidate
	MaxGroups  int // maximum to measure; 0: 64. The smallest ones beyond are left out
	MinSize    int // bytes; smaller values are left alone; 0: 64
	MinGain    float64

	Minimize        Objective
	MaxCPU          time.Duration // for compressing and decompressing a value; 0: no limit
	MaxCores        float64       // at the rates; 0: no limit
	MaxLatency      time.Duration // added per value, on the first link; 0: no limit
	Links           []Link
	Rates           Rates // 0: the source's, or assumed ones
	Prices          price.Table
	Layout          price.Layout
	NoDictionaries  bool
	DictSaving      float64   // least share of the bytes stored without a dictionary that one must save; 0: 0.5 %
	Pair            bool      // there may be a gateway next to the server, too
	Telemetry       Telemetry // only these messages of a running gateway
	ZonesAssumed    bool      // the number of zones is the default
	Progress        func(done float64, what string)
	MeasureDeadline time.Time // groups not started by then are not measured; zero: none
	CPU             CostModel // nil: CPU is measured
}

// ErrEmpty reports a source without anything to measure.
var ErrEmpty = errors.New("nothing to measure")

// ErrSealed reports a source whose values were all compressed by Cinch before.
var ErrSealed = fmt.Errorf("%w: all values are compressed already", ErrEmpty)

// sealedAlready is the reason for leaving values that a gateway or a packer has compressed.
const sealedAlready = "sealed already"

func (o *Options) setDefaults() {
	o.MaxGroups = cmp.Or(o.MaxGroups, 64)
	o.MinSize = cmp.Or(o.MinSize, 64)
	if o.MinGain == 0 {
		o.MinGain = 0.10
	}
	o.Minimize = cmp.Or(o.Minimize, Balance)
	o.Source.Medium = cmp.Or(o.Source.Medium, price.OnDisk)
	if o.Source.Cost == nil {
		o.Source.Cost = plainCost
	}
}
