package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// Snapshot is the status of one page at a time, or the error of the request.
type Snapshot struct {
	Page   string
	At     time.Time
	Status *admin.Status // nil: there was no answer
	Err    error
}

// Gateway is the current state of one gateway. Rates are per second, over the time between two polls.
type Gateway struct {
	Page     string `json:"page"`
	Name     string `json:"gateway"`
	Protocol string `json:"protocol"`
	Route    string `json:"route"`             // listening address and upstream
	Trouble  string `json:"trouble,omitempty"` // why clients are not served; "": they are
	Off      bool   `json:"off,omitempty"`     // it compresses nothing

	Connections int64    `json:"connections"`
	Exchanges   float64  `json:"exchanges"`
	Before      float64  `json:"before_bytes"` // of values, including those left alone
	After       float64  `json:"after_bytes"`
	CPU         float64  `json:"cpu_cores"`
	P99         *float64 `json:"added_p99_us"` // nil: no exchanges
	Errors      float64  `json:"errors"`

	Money *admin.GatewayMoney `json:"money,omitempty"` // dollars since the start, and per month at the rate of the last hour

	Rules    []Rule     `json:"rules"`
	ErrorsBy []Errors   `json:"errors_by_class"`
	Learning []string   `json:"learning,omitempty"` // rules that wait for a dictionary, as text
	Effort   string     `json:"effort,omitempty"`   // state of its budgets, as text
	Packing  *PackState `json:"packing,omitempty"`
}

// PackState is the progress of background packing.
type PackState struct {
	Running bool    `json:"running"`
	Done    float64 `json:"done"` // share of the pass
	Trouble string  `json:"trouble,omitempty"`
}

// Rule is the current state of one rule.
type Rule struct {
	Name    string  `json:"rule"`
	Setting string  `json:"setting"`
	Values  float64 `json:"values"`
	Before  float64 `json:"before_bytes"`
	After   float64 `json:"after_bytes"`
	Left    float64 `json:"left"` // values left alone
	CPU     float64 `json:"compress_cpu_cores"`
}

// Errors is the rate of errors of one class, per second.
type Errors struct {
	Class string  `json:"class"`
	Rate  float64 `json:"rate"`
}

// Ratio returns before divided by after; 0 if after is 0.
func Ratio(before, after float64) float64 {
	if after <= 0 {
		return 0
	}
	return before / after
}

// Gateways compares two polls of the same page. Without an earlier one, or if the process was restarted,
// rates are the average since it started.
func Gateways(before, now Snapshot) []Gateway {
	if now.Status == nil {
		return []Gateway{{Page: now.Page, Trouble: fmt.Sprint(now.Err)}}
	}
	seconds := now.Status.UptimeSeconds
	earlier := map[string]admin.Gateway{}
	if s := before.Status; s != nil && s.StartedAt.Equal(now.Status.StartedAt) {
		seconds = now.Status.UptimeSeconds - s.UptimeSeconds
		for _, g := range s.Gateways {
			earlier[g.Name] = g
		}
	}
	over := func(was, is float64) float64 {
		if seconds <= 0 || is < was {
			return 0
		}
		return (is - was) / seconds
	}
	var list []Gateway
	for _, g := range now.Status.Gateways {
		row := gatewayRates(earlier[g.Name], g, over)
		row.Page = now.Page
		for _, l := range now.Status.Learning {
			if l.Gateway == g.Name {
				row.Learning = append(row.Learning, learning(l))
			}
		}
		list = append(list, row)
	}
	return list
}

// rate converts two counts to a rate.
type rate func(was, is float64) float64

func gatewayRates(was, is admin.Gateway, over rate) Gateway {
	row := Gateway{
		Name: is.Name, Protocol: is.Protocol, Route: is.Listen + " → " + is.Upstream, Trouble: is.Trouble, Off: !is.Enabled,
		Connections: is.Connections.Open,
		Exchanges:   over(float64(was.Latency.Count), float64(is.Latency.Count)),
		Before:      over(float64(was.Total.RawBytes), float64(is.Total.RawBytes)),
		After:       over(float64(was.Total.StoredBytes), float64(is.Total.StoredBytes)),
		CPU:         over(was.Total.SealCPUSeconds+was.Total.OpenCPUSeconds, is.Total.SealCPUSeconds+is.Total.OpenCPUSeconds),
		P99:         quantile(was.Latency.Buckets, is.Latency.Buckets, 0.99),
		Money:       is.Money,
		Rules:       []Rule{}, ErrorsBy: []Errors{},
	}
	earlier := map[string]admin.Rule{}
	for _, r := range was.Rules {
		earlier[r.Rule] = r
	}
	for _, r := range is.Rules {
		w := earlier[r.Rule]
		row.Rules = append(row.Rules, Rule{
			Name: r.Rule, Setting: r.Setting,
			Values: over(float64(w.Sealed), float64(r.Sealed)), Left: over(float64(w.Left), float64(r.Left)),
			Before: over(float64(w.RawBytes), float64(r.RawBytes)), After: over(float64(w.StoredBytes), float64(r.StoredBytes)),
			CPU: over(w.SealCPUSeconds, r.SealCPUSeconds),
		})
	}
	for _, class := range slices.Sorted(maps.Keys(is.Errors)) {
		if e := over(float64(was.Errors[class]), float64(is.Errors[class])); e > 0 {
			row.Errors += e
			row.ErrorsBy = append(row.ErrorsBy, Errors{class, e})
		}
	}
	slices.SortStableFunc(row.ErrorsBy, func(a, b Errors) int { return cmp.Compare(b.Rate, a.Rate) })
	if e := is.Effort; e != nil {
		row.Effort = effortOf(e)
	}
	if p := is.Pack; p != nil {
		row.Packing = &PackState{p.Running, p.Done, p.Trouble}
	}
	return row
}

// quantile returns a quantile of the latencies counted between two polls: the upper end of its bucket. The last
// bucket has no upper end: for that one it returns the lower end.
func quantile(was, is []gateway.LatencyBucket, q float64) *float64 {
	earlier := map[float64]uint64{}
	for _, b := range was {
		earlier[b.UpToUs] = b.Count
	}
	var total, seen uint64
	for _, b := range is {
		total += b.Count - min(b.Count, earlier[b.UpToUs])
	}
	at := 0.0
	for _, b := range is {
		seen += b.Count - min(b.Count, earlier[b.UpToUs])
		at = max(at, b.UpToUs)
		if total > 0 && float64(seen) >= q*float64(total) {
			return &at
		}
	}
	return nil
}

// effortOf describes the state of a gateway's budgets.
func effortOf(e *gateway.EffortTotal) string {
	text := "budget:"
	if e.CPUBudgetCores > 0 {
		text += fmt.Sprintf(" %.2f of %.2f cores,", e.Cores, e.CPUBudgetCores)
	}
	if e.LatencyBudgetSeconds > 0 {
		text += fmt.Sprintf(" %v of latency,", time.Duration(e.LatencyBudgetSeconds*float64(time.Second)))
	}
	var shares []string
	for _, s := range e.Steps {
		if s.Share > 0 {
			shares = append(shares, fmt.Sprintf("%s %.0f %%", s.Step, 100*s.Share))
		}
	}
	return text + " values get " + strings.Join(shares, ", ")
}

func learning(l admin.Learning) string {
	switch {
	case l.Step > 0:
		return fmt.Sprintf("%s: training a dictionary, step %d of %d", l.Rule, l.Step, l.Steps)
	case l.Waiting:
		return l.Rule + ": waits for another training to end"
	case l.Refused:
		return l.Rule + ": no useful dictionary so far"
	}
	return fmt.Sprintf("%s: %d of %d values for a dictionary", l.Rule, l.Samples, l.Wanted)
}

// Total sums up gateways.
type Total struct {
	Gateways    int     `json:"gateways"`
	Amiss       int     `json:"not_serving"`
	Connections int64   `json:"connections"`
	Exchanges   float64 `json:"exchanges"`
	Before      float64 `json:"before_bytes"`
	After       float64 `json:"after_bytes"`
	CPU         float64 `json:"cpu_cores"`
	Errors      float64 `json:"errors"`

	Money *admin.GatewayMoney `json:"money,omitempty"` // of the pages that report it
}

// Sum adds up the figures of gateways.
func Sum(list []Gateway) Total {
	t := Total{Gateways: len(list)}
	for _, g := range list {
		if g.Trouble != "" {
			t.Amiss++
		}
		t.Connections += g.Connections
		t.Exchanges += g.Exchanges
		t.Before += g.Before
		t.After += g.After
		t.CPU += g.CPU
		t.Errors += g.Errors
		if g.Money == nil {
			continue
		}
		if t.Money == nil {
			t.Money = &admin.GatewayMoney{}
		}
		t.Money.SoFar += g.Money.SoFar
		t.Money.Month += g.Money.Month
	}
	return t
}
