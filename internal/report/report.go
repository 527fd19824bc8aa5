package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/price"
)

// Options say what bytes cost.
type Options struct {
	Prices price.Table
	Zones  int       // that traffic is spread over
	Since  time.Time // when compression was turned on; zero: when something was sealed for the first time
	Bill   *float64  // dollars that the cloud has billed for this traffic, in the time since
}

// Report is what was saved. Its JSON is a contract: fields are added, never renamed. Money is in US dollars.
type Report struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	StepSeconds float64   `json:"step_seconds"`
	Sources     []Source  `json:"sources"`
	Before      *Phase    `json:"before,omitempty"` // missing: compression was on all the time
	After       Phase     `json:"after"`
	WireSaving  *Share    `json:"wire_saving,omitempty"` // of bytes for each byte that came in, after against before
	Total       Row       `json:"total"`
	Rows        []Row     `json:"rows"`
	Bill        *Billed   `json:"bill,omitempty"`
	Prices      []Priced  `json:"prices"`
	Method      []string  `json:"method"`
}

// Phase is a part of the time. In and out are the wires of clients and of upstreams.
type Phase struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	InBytes   float64   `json:"in_bytes"`
	OutBytes  float64   `json:"out_bytes"`
	OutPerIn  Share     `json:"out_per_in"`
	InPerDay  float64   `json:"in_bytes_per_day"`
	OutPerDay float64   `json:"out_bytes_per_day"`
}

// Row is what a rule of a gateway has done since compression was turned on.
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

// Billed stands beside what the cloud says.
type Billed struct {
	Amount  float64 `json:"amount"`  // billed
	Without float64 `json:"without"` // about what it would have been
}

// Priced is a price that was used.
type Priced struct {
	Name string `json:"name"`
	price.Entry
}

// New makes the report.
func New(c *Counted, o Options) (*Report, error) {
	w := c.Window
	on := c.turnedOn()
	if !o.Since.IsZero() {
		on = min(max(int((o.Since.Sub(w.From)+w.Step-1)/w.Step), 0), w.steps())
	}
	n := w.steps()
	r := &Report{From: w.From.UTC(), To: w.To.UTC(), StepSeconds: w.Step.Seconds(), Sources: c.Sources, Rows: []Row{}, Method: method}
	r.After = c.phase(on, n)
	if on > 0 {
		before := c.phase(0, on)
		r.Before = &before
		r.WireSaving = against(before.OutPerIn, r.After.OutPerIn)
	}
	if err := c.addRows(r, o, on); err != nil {
		return nil, err
	}
	if o.Bill != nil {
		r.Bill = &Billed{Amount: *o.Bill, Without: *o.Bill / max(1-r.Total.Saving.Value, 1e-6)}
	}
	for _, name := range []string{price.CrossZoneOut, price.CrossZoneIn, price.VCPU} {
		r.Prices = append(r.Prices, Priced{name, o.Prices[name]})
	}
	return r, nil
}

func (c *Counted) phase(from, to int) Phase {
	w := c.Window
	end := w.From.Add(time.Duration(to) * w.Step)
	if end.After(w.To) {
		end = w.To
	}
	p := Phase{From: w.From.Add(time.Duration(from) * w.Step).UTC(), To: end.UTC()}
	if began := c.began(); began.After(p.From) && began.Before(p.To) {
		p.From = began.UTC() // a rate is over the time that was counted
	}
	in, out := c.wire.in[from:to], c.wire.out[from:to]
	p.InBytes, p.OutBytes, p.OutPerIn = sum(in), sum(out), shareOf(in, out)
	if days := p.To.Sub(p.From).Hours() / 24; days > 0 {
		p.InPerDay, p.OutPerDay = p.InBytes/days, p.OutBytes/days
	}
	return p
}

// began is when the first of the sources had counted something; zero: it is not known.
func (c *Counted) began() (at time.Time) {
	for _, s := range c.Sources {
		if s.Oldest == nil {
			return time.Time{}
		}
		if at.IsZero() || s.Oldest.Before(at) {
			at = *s.Oldest
		}
	}
	return at
}

// against is the saving of a share against an earlier one: independent errors of both add up as squares.
func against(before, after Share) *Share {
	if before.Value <= 0 {
		return nil
	}
	ratio := Share{Value: after.Value / before.Value}
	if before.Low != nil && after.Low != nil {
		a, b := (*after.High-after.Value)/max(after.Value, 1e-9), (*before.High-before.Value)/before.Value
		wide := ratio.Value * math.Sqrt(a*a+b*b)
		low, high := ratio.Value-wide, ratio.Value+wide
		ratio.Low, ratio.High = &low, &high
	}
	saved := ratio.less()
	return &saved
}

func (c *Counted) addRows(r *Report, o Options, on int) error {
	n := c.Window.steps()
	raw, stored, cpu := make([]float64, n-on), make([]float64, n-on), 0.0
	add := func(to, from []float64) {
		for i, v := range from[on:] {
			to[i] += v
		}
	}
	seconds := r.After.To.Sub(r.After.From).Seconds()
	for k, u := range c.rows {
		row := o.price(Row{Gateway: k.gateway, Rule: k.rule}, u.raw[on:], u.stored[on:], sum(u.cpu[on:]), seconds)
		if row.RawBytes > 0 || row.CPUSeconds > 0 {
			r.Rows = append(r.Rows, row)
		}
		add(raw, u.raw)
		add(stored, u.stored)
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

func (o *Options) price(row Row, raw, stored []float64, cpuSeconds, seconds float64) Row {
	const gb = 1e9
	row.RawBytes, row.StoredBytes, row.CPUSeconds = sum(raw), sum(stored), cpuSeconds
	row.SavedBytes = row.RawBytes - row.StoredBytes
	row.Saving = shareOf(raw, stored).less()
	row.Traffic = row.SavedBytes / gb * o.Prices.CrossZone() * price.Layout{Zones: o.Zones}.Crossing()
	row.CPU = cpuSeconds / 3600 * o.Prices[price.VCPU].Price
	row.Net = row.Traffic - row.CPU
	if seconds > 0 {
		row.NetMonth = row.Net * price.SecondsPerMonth / seconds
	}
	return row
}

var method = []string{
	"Saved bytes are counted, value by value: what came in less what was sent on, values left as they are included. So they don't depend on how much traffic grew.",
	"As a check, the wire: bytes on the gateways' upstream side for each byte on their clients' side, since compression was turned on against the time before. Protocol overhead and TLS are in it, so that share is of more bytes.",
	"Intervals are at 95 %: how much up to 30 parts of the time differ from the whole (ratio estimator).",
	"Money is traffic between zones at list prices, for the share of bytes that cross when peers are in any zone alike, less the CPU time spent compressing. What values take in a store's memory is not in it: gateways see what passes, not how long it stays. cinch plan prices that.",
}
