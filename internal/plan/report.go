package plan

import (
	"math"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/price"
)

// Report is a plan. Its JSON is a contract: fields are added, never renamed. Bytes are of
// one copy, as the source's accounting has them; money is US dollars a month.
type Report struct {
	Source    string             `json:"source"`
	Protocol  string             `json:"protocol,omitempty"`
	Medium    price.Medium       `json:"medium"`
	Minimize  Objective          `json:"minimize"`
	LookedAt  LookedAt           `json:"looked_at"`
	Rates     Rates              `json:"rates"`
	Assumed   bool               `json:"rates_assumed"` // neither given nor observed
	Observed  Rates              `json:"rates_observed"`
	Doubt     string             `json:"rates_doubt,omitempty"` // why what was observed is not used
	Layout    LayoutInfo         `json:"layout"`
	Links     []string           `json:"links,omitempty"`
	Groups    []*GroupPlan       `json:"groups"`
	Rest      Rest               `json:"everything_else"`
	Left      map[string]float64 `json:"left,omitempty"` // values, or names, that were not measured, by reason
	Now       int64              `json:"bytes_now"`
	NowMargin int64              `json:"bytes_now_margin"` // 95 %
	After     int64              `json:"bytes_after"`      // with what is recommended, dictionaries included
	Margin    int64              `json:"bytes_after_margin"`
	Cores     float64            `json:"cores"`
	BillNow   price.Bill         `json:"month_now"`
	BillAfter price.Bill         `json:"month_after"`
	Notes     []string           `json:"notes,omitempty"`
	GoOn      []string           `json:"not_measured,omitempty"` // groups of which nothing is known, and how to go on
	Prices    price.Table        `json:"prices"`
	Zstd      string             `json:"zstd"` // implementation that was measured
	MadeAt    time.Time          `json:"made_at"`

	ZonesAssumed bool `json:"zones_assumed,omitempty"` // the number of zones is the default

	// Of telemetry that a gateway has sampled:
	Telemetry Telemetry  `json:"telemetry,omitempty"`
	Crossings []Crossing `json:"between_zones,omitempty"`

	layout   price.Layout
	perValue Rates
	mixed    bool // of messages of several protocols
}

// LookedAt says how much was looked at.
type LookedAt struct {
	Whole      bool    `json:"whole"`
	Names      int64   `json:"names"`
	Total      int64   `json:"total_names,omitempty"` // that there are; 0: unknown
	TotalBytes int64   `json:"total_bytes,omitempty"` // of files; 0: unknown
	Values     int64   `json:"values"`
	Bytes      int64   `json:"bytes"`
	Took       Seconds `json:"seconds"`
}

// Seconds is a time in JSON.
type Seconds float64

// LayoutInfo is price.Layout in JSON.
type LayoutInfo struct {
	Copies    int     `json:"copies"`
	Zones     int     `json:"zones"`
	CrossZone float64 `json:"cross_zone"` // share of the traffic that crosses zones
}

// Rest is what is in no group of the plan.
type Rest struct {
	Groups int     `json:"groups"`
	Values float64 `json:"values"`
	Bytes  int64   `json:"bytes"`
}

// GroupPlan is what is known of one group, and what to do about it.
type GroupPlan struct {
	Space    string      `json:"space,omitempty"`
	Pattern  string      `json:"pattern"`
	Type     string      `json:"type,omitempty"`
	Values   float64     `json:"values"`
	Mean     float64     `json:"mean_bytes"` // length of a value
	Median   int64       `json:"median_bytes_at_most"`
	P99      int64       `json:"p99_bytes_at_most"`
	Now      int64       `json:"bytes_now"`
	Margin   int64       `json:"bytes_now_margin"`
	Measured int         `json:"measured_values"`
	BillNow  price.Bill  `json:"month_now"`
	Options  []Option    `json:"candidates"`
	Choice   int         `json:"choice"` // place in candidates, -1: leave it alone, or not measured
	Best     int         `json:"best"`   // likewise of the best one, chosen or not; -1: none
	Why      string      `json:"why"`
	Not      string      `json:"not_measured,omitempty"` // why; "": it was
	Sizes    []SizeCount `json:"sizes"`
	Foreign  *Foreign    `json:"foreign,omitempty"` // values that a client's library has compressed
	Range    *Range      `json:"range,omitempty"`   // of a group whose messages are not known; nil: they are

	Trained *codec.Dict `json:"-"` // for those candidates that have one

	nowError float64
	wire     float64         // bytes a second between application and store
	bounds   []withDocuments // of Range
}

// SizeCount is a bar of a histogram.
type SizeCount struct {
	UpTo   int64   `json:"up_to_bytes"`
	Values float64 `json:"values"`
}

// Option is what a candidate would mean for the whole group.
type Option struct {
	Name            string      `json:"name"`
	Comparison      bool        `json:"comparison,omitempty"` // Cinch can't store it, or it takes another protocol
	After           int64       `json:"bytes_after"`
	Margin          int64       `json:"bytes_after_margin"`
	Ratio           float64     `json:"ratio"`  // now by after
	Sealed          float64     `json:"sealed"` // share of values
	StoredMean      float64     `json:"stored_mean_bytes"`
	CompressMicros  float64     `json:"compress_us"`
	OpenMicros      float64     `json:"open_us"`
	Cores           float64     `json:"cores"`
	Memory          Memory      `json:"state_memory"` // of each state
	DictionaryBytes int         `json:"dictionary_bytes,omitempty"`
	DictionaryCost  int64       `json:"dictionary_cost_bytes,omitempty"`
	Latency         []LinkDelta `json:"latency,omitempty"`
	Bill            price.Bill  `json:"month"`
	Front           bool        `json:"front"`               // no other is better in bytes and CPU both
	Ruled           string      `json:"ruled_out,omitempty"` // why it may not be chosen

	candidate  Candidate
	wire       float64 // bytes a second between application and store
	operations float64 // a second, that Cores is of

	bounds []Option // with each number of documents, of a group with a Range
}

// LinkDelta is by how much a value of average length gets faster (below 0) or slower.
type LinkDelta struct {
	Link        string  `json:"link"`
	PlainMicros float64 `json:"plain_us"` // what it takes now
	ReadMicros  float64 `json:"read_us"`
	WriteMicros float64 `json:"write_us"`
}

// load is what the group asks of the store when values take so much of it and of the wire.
func (r *Report) load(g *GroupPlan, stored, wire float64) price.Load {
	return price.Load{
		Stored: stored, Wire: wire,
		ReadsPerSecond: r.perValue.Reads * g.Values, WritesPerSecond: r.perValue.Writes * g.Values,
	}
}

func (g *GroupPlan) leave(why string) { g.Choice, g.Why = -1, why }

// notMeasured says why nothing is known of a group but its size.
func (g *GroupPlan) notMeasured(why string) {
	g.leave(why)
	g.Not = why
}

// timeWasUp is why a group is not measured whose turn did not come.
const timeWasUp = "the time was up"

// Chosen is the recommended candidate, nil when the group is to be left alone.
func (g *GroupPlan) Chosen() *Option {
	if g.Choice < 0 {
		return nil
	}
	return &g.Options[g.Choice]
}

// After is the group's bytes with what is recommended.
func (g *GroupPlan) After() int64 {
	if o := g.Chosen(); o != nil {
		return o.After
	}
	return g.Now
}

func (r *Report) add(g *GroupPlan) { r.Groups = append(r.Groups, g) }

func (r *Report) left(f found) {
	for reason, n := range f.skip {
		if r.Left == nil {
			r.Left = make(map[string]float64)
		}
		r.Left[reason] += math.Round(n * f.scale)
	}
}

func (r *Report) rest(f found) {
	r.Rest.Groups++
	r.Rest.Values += math.Round(f.sizes.values * f.scale)
	r.Rest.Bytes += int64(f.sizes.cost * f.scale)
}

// finish sums up. Errors of groups are independent, so their squares add up.
func (r *Report) finish() {
	r.Now, r.After = r.Rest.Bytes, r.Rest.Bytes
	var now, after float64
	for _, g := range r.Groups {
		r.Now += g.Now
		r.After += g.After()
		now += float64(g.Margin) * float64(g.Margin)
		bill, m := g.BillNow, g.Margin
		if o := g.Chosen(); o != nil {
			bill, m = o.Bill, o.Margin
			r.Cores += o.Cores
		}
		after += float64(m) * float64(m)
		r.BillNow, r.BillAfter = r.BillNow.Add(g.BillNow), r.BillAfter.Add(bill)
	}
	r.GoOn = r.unmeasured()
	r.NowMargin, r.Margin = int64(math.Sqrt(now)), int64(math.Sqrt(after))
}

// Memory is what a codec's states take, each. A gateway has as many of them at a time as it
// has cores.
type Memory struct {
	Compress int64  `json:"compress_bytes"`
	Open     int64  `json:"open_bytes"`
	From     string `json:"from"` // measured, or the library's figures
}

// label is what a group is called.
func (g *GroupPlan) label() string {
	s := g.Pattern
	if s == "" {
		s = `""`
	}
	switch g.Type {
	case "string", kindTuple, kindDocument, kindColumn, kindFile, "":
	default:
		s += " " + g.Type
	}
	if g.Space != "" && g.Space != "0" {
		s = g.Space + "/" + s
	}
	return s
}

const notMeasured = "not measured"

// todo is what to do about a group, in two words.
func (g *GroupPlan) todo() string {
	switch {
	case g.Not != "":
		return notMeasured
	case g.Choice < 0 && g.Foreign.suggested() != nil:
		return "re-seal?"
	case g.Choice < 0:
		return "leave alone"
	}
	return g.Options[g.Choice].Name
}

// best is the candidate to look at: the chosen one, what the content could be sealed with, or what comes closest; nil
// when nothing was measured.
func (g *GroupPlan) best() *Option {
	if o := g.Foreign.suggested(); o != nil && g.Choice < 0 {
		return o
	}
	if g.Best < 0 || g.Best >= len(g.Options) {
		return nil
	}
	return &g.Options[g.Best]
}
