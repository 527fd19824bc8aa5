package plan

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/price"
)

// Objective is what is to be as small as possible.
type Objective string

// The objectives. Balance is cost, with a preference for less CPU: see balance.go.
const (
	Balance    Objective = "balance"
	MinCost    Objective = "cost"
	MinLatency Objective = "latency"
	MinBytes   Objective = "bytes"
)

// SourceInfo is what the kind of source decides.
type SourceInfo struct {
	Name     string // without credentials
	Protocol string // of the gateway that could serve it; "" for none
	Medium   price.Medium
	Cost     Cost                    // nil: lengths
	Never    func(value []byte) bool // values that are never sealed; nil: none
	DictCost float64                 // bytes that the store holds for each byte of a dictionary
	Rates    Rates                   // observed; 0: unknown
	Observed Rates                   // also where they are not believed
	Doubt    string                  // why they are not; "": they are, or there are none
	Whole    bool                    // all of it was looked at
	Total    int64                   // names that there are; 0: unknown
	Bytes    int64                   // of files; 0: unknown
	Items    int64                   // that the rates count, with several values each; 0: they count values
	Notes    []string                // for people
}

// Rates are operations a second on the whole source.
type Rates struct {
	Reads  float64 `json:"reads_per_second"`
	Writes float64 `json:"writes_per_second"`
}

// Options say what to measure and what to want. Engine, Prices and Candidates have to be
// there.
type Options struct {
	Source     SourceInfo
	Engine     *codec.Engine
	Train      dict.Trainer // libzstd's; nil: pure Go's
	Candidates []Candidate
	MaxGroups  int // measured; 0: 64. The smallest ones beyond are not
	MinSize    int // bytes; smaller values are left alone; 0: 64
	MinGain    float64

	Minimize        Objective
	MaxCPU          time.Duration // of compressing and opening a value; 0: any
	MaxCores        float64       // at the rates; 0: any
	MaxLatency      time.Duration // that a value may lose, on the first link; 0: any
	Links           []Link
	Rates           Rates // 0: the source's, or what DefaultRates assumes
	Prices          price.Table
	Layout          price.Layout
	NoDictionaries  bool
	Pair            bool      // there may be a gateway beside the server, too
	Telemetry       Telemetry // of a running gateway's messages, only these
	ZonesAssumed    bool      // the number of zones is the default, and was not given
	Progress        func(done float64, what string)
	MeasureDeadline time.Time // groups whose turn comes later are not measured; zero: none
	CPU             CostModel // nil: it is measured
}

// ErrEmpty: the source holds nothing that could be measured.
var ErrEmpty = errors.New("nothing to measure")

// ErrSealed: it did before Cinch came.
var ErrSealed = fmt.Errorf("%w: all values are sealed already", ErrEmpty)

// sealedAlready is why values are left that a gateway or a packer has sealed.
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
