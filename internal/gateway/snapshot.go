package gateway

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy/budget"
)

// Snapshot holds the counters of one gateway since the process started, for the admin page and its JSON. The
// field names are documented in docs/METRICS.md. Counters are read one after the other, so sums may be off by
// the events in between.
type Snapshot struct {
	Name        string            `json:"name"`
	Protocol    string            `json:"protocol"`
	Trouble     string            `json:"trouble,omitempty"` // why the gateway can't serve clients
	Connections Connections       `json:"connections"`
	Wire        Wire              `json:"wire"`
	Total       Total             `json:"total"`
	Rules       []RuleTotal       `json:"rules"`
	Opened      []CodecTotal      `json:"opened"`
	Errors      map[string]uint64 `json:"errors"`
	Guarded     []GuardTotal      `json:"guarded"`
	Inflated    map[string]uint64 `json:"inflated"`
	Latency     LatencyTotal      `json:"latency"`
	// Effort is nil if neither cpu_budget nor latency_budget is set.
	Effort *EffortTotal `json:"effort,omitempty"`
}

// Connections counts client connections.
type Connections struct {
	Open     int64  `json:"open"`
	Total    uint64 `json:"total"`
	Rejected uint64 `json:"rejected"`
}

// Wire counts the bytes on the wire of both sides.
type Wire struct {
	Client   Traffic `json:"client"`
	Upstream Traffic `json:"upstream"`
}

// Traffic counts the bytes on the wire of one side, TLS included.
type Traffic struct {
	ReceivedBytes uint64 `json:"received_bytes"`
	SentBytes     uint64 `json:"sent_bytes"`
}

// Total sums up a gateway's work. RawBytes are the values that passed between the gateway and its upstream at
// their full size, StoredBytes the same values as they were sent, and SavedBytes the difference. Values that
// were left uncompressed count in both, and so do values that were read back and decompressed where the
// upstream stores them compressed (see [StoresValues]). The admin page, cinch top, cinch report and
// /metrics all use this definition of "saved", and so do the amounts of money that they show.
type Total struct {
	Values         uint64  `json:"values"`
	Sealed         uint64  `json:"sealed"`
	RawBytes       uint64  `json:"raw_bytes"`
	StoredBytes    uint64  `json:"stored_bytes"`
	SavedBytes     int64   `json:"saved_bytes"` // negative when envelopes cost more than they saved
	Ratio          float64 `json:"ratio"`       // raw divided by stored; 0 when nothing was stored
	SealCPUSeconds float64 `json:"seal_cpu_seconds"`
	OpenCPUSeconds float64 `json:"open_cpu_seconds"`
	Opened         uint64  `json:"opened"`
}

// RuleTotal counts the values of one rule; its sizes include the values left uncompressed.
type RuleTotal struct {
	Rule           string       `json:"rule"`
	Sealed         uint64       `json:"sealed"`
	Left           uint64       `json:"left"`
	RawBytes       uint64       `json:"raw_bytes"`
	StoredBytes    uint64       `json:"stored_bytes"`
	Ratio          float64      `json:"ratio"`
	SealCPUSeconds float64      `json:"seal_cpu_seconds"`
	Codecs         []CodecTotal `json:"codecs"`
	LeftBy         []LeftTotal  `json:"left_by"`
	// Observed counts the values that the rule has measured in mode observe; nil: none.
	Observed *ObservedTotal `json:"observed,omitempty"`
}

// ObservedTotal counts values that were compressed and decompressed for the statistics only.
type ObservedTotal struct {
	Values         uint64  `json:"values"`
	RawBytes       uint64  `json:"raw_bytes"`
	StoredBytes    uint64  `json:"stored_bytes"`
	Ratio          float64 `json:"ratio"`
	SealCPUSeconds float64 `json:"seal_cpu_seconds"`
	OpenCPUSeconds float64 `json:"open_cpu_seconds"`
}

// CodecTotal counts values that one codec compressed, or decompressed.
type CodecTotal struct {
	Codec       string  `json:"codec"`
	Values      uint64  `json:"values"`
	RawBytes    uint64  `json:"raw_bytes"`
	StoredBytes uint64  `json:"stored_bytes"`
	Ratio       float64 `json:"ratio"`
	CPUSeconds  float64 `json:"cpu_seconds"`
}

// LeftTotal counts values that were left uncompressed for one reason.
type LeftTotal struct {
	Reason string `json:"reason"`
	Values uint64 `json:"values"`
	Bytes  uint64 `json:"bytes"`
}

// GuardTotal counts guarded commands.
type GuardTotal struct {
	Command string `json:"command"`
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
}

// LatencyTotal sums up the latency that the gateway added. The quantiles are upper ends of histogram buckets, so
// they may be up to 2.5 times too high.
type LatencyTotal struct {
	Count  uint64  `json:"count"`
	MeanUs float64 `json:"mean_us"`
	P50Us  float64 `json:"p50_us"`
	P99Us  float64 `json:"p99_us"`
	// Buckets are the non-empty buckets of the histogram, from short to long.
	Buckets []LatencyBucket `json:"buckets"`
}

// LatencyBucket counts exchanges to which the gateway added at most UpToUs, and more than the bound of the
// previous bucket.
type LatencyBucket struct {
	UpToUs float64 `json:"up_to_us,omitempty"` // absent: longer than all others
	Count  uint64  `json:"count"`
}

// Snapshot reads all counters. Rules and codecs are sorted by name.
func (s *Stats) Snapshot() Snapshot {
	if s == nil {
		return Snapshot{}
	}
	snap := Snapshot{
		Name: s.name, Protocol: s.protocol,
		Connections: Connections{s.connsOpen.Load(), s.connsTotal.Load(), s.connsRejected.Load()},
		Wire:        Wire{s.sides[sideClient].snapshot(), s.sides[sideUpstream].snapshot()},
		Rules:       s.ruleTotals(),
		Opened:      s.openedTotals(),
		Errors:      loadAll(s.errors.all()),
		Guarded:     s.guardTotals(),
		Inflated:    loadAll(s.inflated.all()),
		Latency:     s.latency.snapshot(),
		Effort:      s.effort.Load().total(),
	}
	if trouble := s.trouble.Load(); trouble != nil {
		snap.Trouble = *trouble
	}
	snap.Total = sumUp(snap.Rules, snap.Opened, StoresValues(s.protocol))
	return snap
}

func (t *traffic) snapshot() Traffic { return Traffic{t.received.Load(), t.sent.Load()} }

func loadAll(m map[string]*atomic.Uint64) map[string]uint64 {
	out := make(map[string]uint64, len(m))
	for k, n := range m {
		out[k] = n.Load()
	}
	return out
}

func (s *Stats) ruleTotals() []RuleTotal {
	rules := map[string]*RuleTotal{}
	rule := func(name string) *RuleTotal {
		if rules[name] == nil {
			rules[name] = &RuleTotal{Rule: name, Codecs: []CodecTotal{}, LeftBy: []LeftTotal{}}
		}
		return rules[name]
	}
	for k, v := range s.sealed.all() {
		rule(k.rule).addCodec(v.snapshot(k.codecName()))
	}
	for k, v := range s.left.all() {
		rule(k.rule).addLeft(LeftTotal{k.reason, v.values.Load(), v.rawBytes.Load()})
	}
	for k, o := range s.observed.all() {
		rule(k.rule).addObserved(o)
	}
	out := make([]RuleTotal, 0, len(rules))
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		out = append(out, rules[name].finish())
	}
	return out
}

func (r *RuleTotal) addCodec(c CodecTotal) {
	r.Sealed += c.Values
	r.RawBytes += c.RawBytes
	r.StoredBytes += c.StoredBytes
	r.SealCPUSeconds += c.CPUSeconds
	r.Codecs = append(r.Codecs, c)
}

func (r *RuleTotal) addLeft(l LeftTotal) {
	r.Left += l.Values
	r.RawBytes += l.Bytes
	r.StoredBytes += l.Bytes
	r.LeftBy = append(r.LeftBy, l)
}

func (r *RuleTotal) addObserved(o *observation) {
	if r.Observed == nil {
		r.Observed = &ObservedTotal{}
	}
	t := r.Observed
	t.Values += o.values.Load()
	t.RawBytes += o.rawBytes.Load()
	t.StoredBytes += o.storedBytes.Load()
	t.SealCPUSeconds += time.Duration(o.nanos.Load()).Seconds()
	t.OpenCPUSeconds += time.Duration(o.openNanos.Load()).Seconds()
	t.Ratio = ratio(t.RawBytes, t.StoredBytes)
}

func (r *RuleTotal) finish() RuleTotal {
	r.Ratio = ratio(r.RawBytes, r.StoredBytes)
	slices.SortFunc(r.Codecs, func(a, b CodecTotal) int { return cmp.Compare(a.Codec, b.Codec) })
	slices.SortFunc(r.LeftBy, func(a, b LeftTotal) int { return cmp.Compare(a.Reason, b.Reason) })
	return *r
}

func (s *Stats) openedTotals() []CodecTotal {
	out := []CodecTotal{}
	for i := range s.opened {
		if t := s.opened[i].snapshot(codec.ID(i).String()); t.Values > 0 {
			out = append(out, t)
		}
	}
	return out
}

func (s *Stats) guardTotals() []GuardTotal {
	out := []GuardTotal{}
	for k, n := range s.guarded.all() {
		out = append(out, GuardTotal{k.command, k.outcome, n.Load()})
	}
	slices.SortFunc(out, func(a, b GuardTotal) int {
		return cmp.Or(cmp.Compare(a.Command, b.Command), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out
}

func (v *volume) snapshot(codec string) CodecTotal {
	raw, stored := v.rawBytes.Load(), v.storedBytes.Load()
	return CodecTotal{
		Codec: codec, Values: v.values.Load(),
		RawBytes: raw, StoredBytes: stored, Ratio: ratio(raw, stored),
		CPUSeconds: time.Duration(v.nanos.Load()).Seconds(),
	}
}

func (h *histogram) snapshot() LatencyTotal {
	counts, n := h.read()
	if n == 0 {
		return LatencyTotal{Buckets: []LatencyBucket{}}
	}
	return LatencyTotal{
		Buckets: bucketsOf(counts[:]),
		Count:   n,
		MeanUs:  microseconds(time.Duration(h.nanos.Load())) / float64(n),
		P50Us:   microseconds(h.quantile(0.50)),
		P99Us:   microseconds(h.quantile(0.99)),
	}
}

func bucketsOf(counts []uint64) (list []LatencyBucket) {
	for i, n := range counts {
		if n == 0 {
			continue
		}
		b := LatencyBucket{Count: n}
		if i < len(latencyBounds) {
			b.UpToUs = microseconds(latencyBounds[i])
		}
		list = append(list, b)
	}
	return list
}

// Latencies counts exchanges by the latency that the gateway added.
type Latencies struct {
	counts [len(latencyBounds) + 1]uint64
}

// Latencies returns the current counts.
func (s *Stats) Latencies() (l Latencies) {
	if s != nil {
		l.counts, _ = s.latency.read()
	}
	return l
}

// Quantile returns the quantile q of the exchanges counted since before, as the upper end of a bucket; 0 if
// there were none.
func (l Latencies) Quantile(before Latencies, q float64) time.Duration {
	total := uint64(0)
	for i := range l.counts {
		l.counts[i] -= before.counts[i]
		total += l.counts[i]
	}
	return quantileOf(l.counts, total, q)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// StoresValues reports whether a protocol's upstream stores values compressed, so that reading one saves bytes as
// writing it does. With other protocols, the gateway that compressed a message has already counted its saving.
func StoresValues(protocol string) bool { return protocol == "redis" || protocol == "tarantool" }

func sumUp(rules []RuleTotal, opened []CodecTotal, readsSave bool) Total {
	var t Total
	for _, r := range rules {
		t.Values += r.Sealed + r.Left
		t.Sealed += r.Sealed
		t.RawBytes += r.RawBytes
		t.StoredBytes += r.StoredBytes
		t.SealCPUSeconds += r.SealCPUSeconds
	}
	for _, o := range opened {
		t.Opened += o.Values
		t.OpenCPUSeconds += o.CPUSeconds
		if readsSave {
			t.RawBytes += o.RawBytes
			t.StoredBytes += o.StoredBytes
		}
	}
	t.SavedBytes = int64(t.RawBytes) - int64(t.StoredBytes)
	t.Ratio = ratio(t.RawBytes, t.StoredBytes)
	return t
}

func ratio(raw, stored uint64) float64 {
	if stored == 0 {
		return 0
	}
	return float64(raw) / float64(stored)
}

// EffortTotal is the state of a gateway's budgets for compressing.
type EffortTotal struct {
	CPUBudgetCores       float64       `json:"cpu_budget_cores,omitempty"`
	LatencyBudgetSeconds float64       `json:"latency_budget_seconds,omitempty"`
	Cores                float64       `json:"cores"` // recently spent on compressing
	CPUSeconds           float64       `json:"cpu_seconds"`
	Late                 uint64        `json:"late"` // values that took longer than the latency budget
	Step                 string        `json:"step"`
	Changes              uint64        `json:"changes"`
	Steps                []EffortShare `json:"steps"`
}

// EffortShare counts the values of one step: rule, fast, lz4 or raw.
type EffortShare struct {
	Step   string  `json:"step"`
	Share  float64 `json:"share"` // of the values in the last seconds
	Values uint64  `json:"values"`
}

// total returns nil if there are no limits.
func (e *Effort) total() *EffortTotal {
	s, ok := e.state()
	if !ok {
		return nil
	}
	t := &EffortTotal{
		CPUBudgetCores: s.Limits.Cores, LatencyBudgetSeconds: s.Limits.Latency.Seconds(),
		Cores: s.Cores, CPUSeconds: s.Spent.Seconds(), Late: s.Late, Step: s.Step.String(), Changes: s.Changes,
	}
	for i, share := range s.Shares {
		t.Steps = append(t.Steps, EffortShare{budget.Step(i).String(), share, s.Values[i]})
	}
	return t
}
