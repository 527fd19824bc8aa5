package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
)

// Options configures the prices and the period.
type Options struct {
	Prices  price.Table
	Layout  price.Layout
	Assumed bool      // the layout is the default
	Since   time.Time // when compression was turned on; zero: when something was first compressed, or read compressed
	Bill    *float64  // dollars that the cloud has billed for this traffic, since then
}

// Report is the saving. Its JSON is a contract: fields are added, never renamed. Money is in US dollars.
type Report struct {
	From        time.Time      `json:"from"`
	To          time.Time      `json:"to"`
	StepSeconds float64        `json:"step_seconds"`
	Sources     []Source       `json:"sources"`
	Before      *Phase         `json:"before,omitempty"` // missing: compression was always on
	After       Phase          `json:"after"`
	WireSaving  *Share         `json:"wire_saving,omitempty"` // saving in bytes sent per byte received, after compared with before
	Gateways    []Compared     `json:"gateways"`              // the same by gateway, each with its own time of change
	Points      []Point        `json:"points"`
	Total       Row            `json:"total"`
	Rows        []Row          `json:"rows"`
	TrainingCPU float64        `json:"training_cpu_seconds"` // of dictionaries, in the whole period; no part of the rows' CPU
	Bill        *Billed        `json:"bill,omitempty"`
	Prices      []price.Priced `json:"prices"`
	CrossZone   float64        `json:"cross_zone"`    // share of the traffic that crosses zones
	ZoneAssumed bool           `json:"zones_assumed"` // that share is the default
	Method      []string       `json:"method"`
}

// Phase is a part of the period. In and out are the sides of clients and upstreams.
type Phase struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	InBytes   float64   `json:"in_bytes"`
	OutBytes  float64   `json:"out_bytes"`
	OutPerIn  Share     `json:"out_per_in"`
	InPerDay  float64   `json:"in_bytes_per_day"`
	OutPerDay float64   `json:"out_bytes_per_day"`
}

// Compared is a gateway before and after compression was turned on there.
type Compared struct {
	Gateway    string `json:"gateway"`
	Before     *Phase `json:"before,omitempty"`
	After      Phase  `json:"after"`
	WireSaving *Share `json:"wire_saving,omitempty"`
}

// Point is one step, or several combined.
type Point struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	InBytes  float64   `json:"in_bytes"`
	OutBytes float64   `json:"out_bytes"`
	Saved    float64   `json:"saved_bytes"` // as counted, value by value
}

// Row is the result of a gateway's rule since compression was turned on.
type Row struct {
	Gateway     string  `json:"gateway,omitempty"`
	Rule        string  `json:"rule,omitempty"`
	RawBytes    float64 `json:"raw_bytes"`    // would have been sent
	StoredBytes float64 `json:"stored_bytes"` // were sent
	SavedBytes  float64 `json:"saved_bytes"`
	Saving      Share   `json:"saving"` // of the raw bytes
	CPUSeconds  float64 `json:"cpu_seconds"`
	Traffic     float64 `json:"traffic_saved"` // dollars
	CPU         float64 `json:"cpu_cost"`
	Net         float64 `json:"net"`
	NetMonth    float64 `json:"net_month"` // at this rate
}

// New returns the report.
func New(c *Counted, o Options) (*Report, error) {
	w := c.Window
	on := func(gateway string) int {
		if o.Since.IsZero() {
			return c.turnedOn(gateway)
		}
		return min(max(int((o.Since.Sub(w.From)+w.Step-1)/w.Step), 0), w.steps())
	}
	all := c.compared("", on(""))
	r := &Report{
		From: w.From.UTC(), To: w.To.UTC(), StepSeconds: w.Step.Seconds(), Sources: c.Sources, Before: all.Before, After: all.After, WireSaving: all.WireSaving,
		Gateways: []Compared{}, Points: c.points(on("")), Rows: []Row{}, TrainingCPU: sum(c.training), Method: o.method(), CrossZone: o.Layout.Crossing(), ZoneAssumed: o.Assumed,
	}
	for _, name := range slices.Sorted(maps.Keys(c.wires)) {
		r.Gateways = append(r.Gateways, c.compared(name, on(name)))
	}
	if err := c.addRows(r, o, on("")); err != nil {
		return nil, err
	}
	if o.Bill != nil {
		r.addAmount(*o.Bill)
	}
	r.Prices = o.rates().Used()
	return r, nil
}

func (c *Counted) addRows(r *Report, o Options, on int) error {
	n := c.Window.steps()
	raw, stored, cpu := make([]float64, n-on), make([]float64, n-on), 0.0
	seconds := r.After.To.Sub(r.After.From).Seconds()
	for k, u := range c.rows {
		row := o.price(Row{Gateway: k.gateway, Rule: k.rule}, u.raw[on:], u.stored[on:], sum(u.cpu[on:]), seconds)
		if row.RawBytes > 0 || row.CPUSeconds > 0 {
			r.Rows = append(r.Rows, row)
		}
		addTo(raw, u.raw[on:])
		addTo(stored, u.stored[on:])
		cpu += row.CPUSeconds
	}
	if r.Total = o.price(Row{}, raw, stored, cpu, seconds); r.Total.RawBytes <= 0 {
		return ErrNothing
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.SavedBytes, a.SavedBytes), cmp.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Rule, b.Rule))
	})
	return nil
}

func (o *Options) rates() price.Rates {
	return price.Rates{Table: o.Prices, Zones: o.Layout.Zones, CrossZone: o.Layout.CrossZone}
}

func (o *Options) price(row Row, raw, stored []float64, cpuSeconds, seconds float64) Row {
	row.RawBytes, row.StoredBytes, row.CPUSeconds = sum(raw), sum(stored), cpuSeconds
	row.SavedBytes = row.RawBytes - row.StoredBytes
	row.Saving = shareOf(raw, stored).less()
	done := price.Work{SavedBytes: row.SavedBytes, CPUSeconds: cpuSeconds}
	s := o.rates().Saving(done)
	row.Traffic, row.CPU, row.Net = s.Traffic, s.CPU, s.Net()
	row.NetMonth = o.rates().Month(done, seconds).Net()
	return row
}

func (o *Options) method() []string {
	flags := ""
	if o.Assumed {
		flags = "--zones, --cross-zone"
	}
	return append(slices.Clone(method), fmt.Sprintf("Money is traffic between zones at list prices, less the CPU time spent compressing and decompressing: %s. It does not include the memory of stores: gateways see values pass, not how long they are stored. cinch plan estimates that.", o.Layout.Words(flags)))
}

var method = []string{
	"Saved bytes are counted for each value: bytes received less bytes sent on, including values left uncompressed. So they don't depend on the growth of traffic.",
	"A check on the wire compares bytes on the gateways' upstream side for each byte on their clients' side, since compression was turned on and before. It includes protocol overhead and TLS, so its share is of more bytes.",
	"± is a 95 % interval, from the differences between up to 30 parts of the time (ratio estimator).",
}
