package plan

import (
	"math"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
)

// Report is a plan. Its JSON is a contract: fields are added, never renamed. Bytes are of one copy, in the
// source's accounting; money is US dollars per month.
type Report struct {
	Source    string             `json:"source"`
	Protocol  string             `json:"protocol,omitempty"`
	Medium    price.Medium       `json:"medium"`
	Minimize  Objective          `json:"minimize"`
	LookedAt  LookedAt           `json:"looked_at"`
	Rates     Rates              `json:"rates"`
	Assumed   bool               `json:"rates_assumed"` // neither given nor observed
	Observed  Rates              `json:"rates_observed"`
	Doubt     string             `json:"rates_doubt,omitempty"` // why the observed rates are not used
	Layout    LayoutInfo         `json:"layout"`
	Links     []string           `json:"links,omitempty"`
	Groups    []*GroupPlan       `json:"groups"`
	Rest      Rest               `json:"everything_else"`
	Left      map[string]float64 `json:"left,omitempty"` // values or names that were not measured, by reason
	Now       int64              `json:"bytes_now"`
	NowMargin int64              `json:"bytes_now_margin"` // 95 %
	After     int64              `json:"bytes_after"`      // with the recommendations, dictionaries included
	Margin    int64              `json:"bytes_after_margin"`
	Cores     float64            `json:"cores"`
	BillNow   price.Bill         `json:"month_now"`
	BillAfter price.Bill         `json:"month_after"`
	Notes     []string           `json:"notes,omitempty"`
	GoOn      []string           `json:"not_measured,omitempty"` // groups that were not measured, and how to continue
	Prices    price.Table        `json:"prices"`
	Zstd      string             `json:"zstd"` // the implementation that was measured
	MadeAt    time.Time          `json:"made_at"`

	ZonesAssumed bool `json:"zones_assumed,omitempty"` // the number of zones is the default

	// For telemetry that a gateway has sampled:
	Telemetry Telemetry  `json:"telemetry,omitempty"`
	Crossings []Crossing `json:"between_zones,omitempty"`

	layout   price.Layout
	perValue Rates
	mixed    bool // messages of several protocols
}

// LookedAt tells how much was read.
type LookedAt struct {
	Whole      bool    `json:"whole"`
	Names      int64   `json:"names"`
	Total      int64   `json:"total_names,omitempty"` // in the source; 0: unknown
	TotalBytes int64   `json:"total_bytes,omitempty"` // of files; 0: unknown
	Values     int64   `json:"values"`
	Bytes      int64   `json:"bytes"`
	Took       Seconds `json:"seconds"`
}

// Seconds is a duration in JSON.
type Seconds float64

// LayoutInfo is price.Layout in JSON.
type LayoutInfo struct {
	Copies    int     `json:"copies"`
	Zones     int     `json:"zones"`
	CrossZone float64 `json:"cross_zone"` // share of the traffic that crosses zones
}

// Rest sums up the values that are in no group of the plan.
type Rest struct {
	Groups int     `json:"groups"`
	Values float64 `json:"values"`
	Bytes  int64   `json:"bytes"`
}

// GroupPlan holds the figures of one group, and the recommendation.
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
	Choice   int         `json:"choice"` // index in candidates, -1: leave it alone, or not measured
	Best     int         `json:"best"`   // index of the best candidate, chosen or not; -1: none
	Why      string      `json:"why"`
	Not      string      `json:"not_measured,omitempty"` // why it was not measured; "": it was
	Sizes    []SizeCount `json:"sizes"`
	Foreign  *Foreign    `json:"foreign,omitempty"` // values that a client's library has compressed
	Range    *Range      `json:"range,omitempty"`   // bounds, if its messages are not known; nil: they are

	Trained *codec.Dict `json:"-"` // for the candidates with a dictionary

	nowError float64
	wire     float64         // bytes per second between application and store
	bounds   []withDocuments // of Range
}

// SizeCount is a bar of a histogram.
type SizeCount struct {
	UpTo   int64   `json:"up_to_bytes"`
	Values float64 `json:"values"`
}

// Option is the result of a candidate for the whole group.
type Option struct {
	Name            string      `json:"name"`
	Comparison      bool        `json:"comparison,omitempty"` // Cinch can't store it, or it needs another protocol
	After           int64       `json:"bytes_after"`
	Margin          int64       `json:"bytes_after_margin"`
	Ratio           float64     `json:"ratio"`  // now by after
	Sealed          float64     `json:"sealed"` // share of values
	StoredMean      float64     `json:"stored_mean_bytes"`
	CompressMicros  float64     `json:"compress_us"`
	OpenMicros      float64     `json:"open_us"`
	Cores           float64     `json:"cores"`
	Memory          Memory      `json:"state_memory"` // of each codec state
	DictionaryBytes int         `json:"dictionary_bytes,omitempty"`
	DictionaryCost  int64       `json:"dictionary_cost_bytes,omitempty"`
	Latency         []LinkDelta `json:"latency,omitempty"`
	Bill            price.Bill  `json:"month"`
	Front           bool        `json:"front"`               // no other is better in both bytes and CPU
	Ruled           string      `json:"ruled_out,omitempty"` // why it may not be chosen

	candidate  Candidate
	wire       float64 // bytes per second between application and store
	operations float64 // per second, for Cores

	bounds []Option // with each number of documents, for a group with a Range
}

// LinkDelta tells by how much a value of average length gets faster (below 0) or slower.
type LinkDelta struct {
	Link        string  `json:"link"`
	PlainMicros float64 `json:"plain_us"` // time without compression
	ReadMicros  float64 `json:"read_us"`
	WriteMicros float64 `json:"write_us"`
}

// load returns the group's load on the store, for the given stored bytes and bytes on the wire.
func (r *Report) load(g *GroupPlan, stored, wire float64) price.Load {
	return price.Load{
		Stored: stored, Wire: wire,
		ReadsPerSecond: r.perValue.Reads * g.Values, WritesPerSecond: r.perValue.Writes * g.Values,
	}
}

func (g *GroupPlan) leave(why string) { g.Choice, g.Why = -1, why }

// notMeasured records why only the size of a group is known.
func (g *GroupPlan) notMeasured(why string) {
	g.leave(why)
	g.Not = why
}

// timeWasUp is the reason for a group that was not measured before the deadline.
const timeWasUp = "time ran out"

// Chosen returns the recommended candidate, or nil if the group is to be left alone.
func (g *GroupPlan) Chosen() *Option {
	if g.Choice < 0 {
		return nil
	}
	return &g.Options[g.Choice]
}

// After returns the group's bytes with the recommendation.
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

// finish computes the totals. Errors of groups are independent, so their squares add up.
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

// Memory is the size of a codec's states. A gateway uses at most one per core at a time.
type Memory struct {
	Compress int64  `json:"compress_bytes"`
	Open     int64  `json:"open_bytes"`
	From     string `json:"from"` // "measured", or the library's figures
}

// label returns a group's name for display.
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

// todo returns what to do about a group, in two words.
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

// best returns the candidate to show: the chosen one, the one for the content, or the closest one; nil if
// nothing was measured.
func (g *GroupPlan) best() *Option {
	if o := g.Foreign.suggested(); o != nil && g.Choice < 0 {
		return o
	}
	if g.Best < 0 || g.Best >= len(g.Options) {
		return nil
	}
	return &g.Options[g.Best]
}
