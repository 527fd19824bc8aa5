package gateway

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy/budget"
)

// Metrics exports the counters of one process to Prometheus. It reads them at each scrape and stores nothing.
// Its fields must be set before Register.
type Metrics struct {
	Gateways []*Stats
	Requests *memory.Budget              // bytes of values on their way upstream; may be nil
	Replies  *memory.Budget              // the same on their way to clients; may be nil
	Codec    func() (inFlight, most int) // codec operations running, and their limit; may be nil
	Version  string
	Revision string
}

// Register adds the metrics, and those of the process and the Go runtime, to reg.
func (m *Metrics) Register(reg prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		m,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// docs/METRICS.md lists the same names: a test compares them.
var (
	descBuild = desc("cinch_build_info", "Always 1. The labels name the running version.", "version", "revision", "goversion")
	descInfo  = desc("cinch_gateway_info", "Always 1. The labels name the gateway and its protocol.", "gateway", "protocol")

	descConns         = desc("cinch_connections", "Client connections open now.", "gateway")
	descConnsTotal    = desc("cinch_connections_total", "Client connections accepted.", "gateway")
	descConnsRejected = desc("cinch_connections_rejected_total", "Client connections closed at once because max_connections or the limit of file descriptors was reached.", "gateway")
	descReceived      = desc("cinch_received_bytes_total", "Bytes received on the wire, TLS included.", "gateway", "side")
	descSent          = desc("cinch_sent_bytes_total", "Bytes sent on the wire, TLS included.", "gateway", "side")

	descUncompressed = desc("cinch_uncompressed_bytes_total", "Bytes of values between gateway and upstream as they would be without compression.", "gateway")
	descCompressed   = desc("cinch_compressed_bytes_total", "Bytes of the values in cinch_uncompressed_bytes_total as sent. The difference is the saving.", "gateway")

	descSealed      = desc("cinch_values_sealed_total", "Values compressed.", "gateway", "rule", "codec")
	descSealRaw     = desc("cinch_value_raw_bytes_total", "Bytes of compressed values before compression.", "gateway", "rule", "codec")
	descSealStored  = desc("cinch_value_stored_bytes_total", "Bytes of compressed values after compression, envelopes included.", "gateway", "rule", "codec")
	descSealSeconds = desc("cinch_seal_cpu_seconds_total", "Time spent compressing, in seconds, including attempts that did not save space.", "gateway", "rule", "codec")
	descLeft        = desc("cinch_values_left_total", "Values covered by a rule and left uncompressed.", "gateway", "rule", "reason")
	descLeftBytes   = desc("cinch_value_left_bytes_total", "Bytes of values covered by a rule and left uncompressed.", "gateway", "rule", "reason")

	descObserved            = desc("cinch_values_observed_total", "Values that a rule with mode observe compressed and decompressed only to measure.", "gateway", "rule", "codec")
	descObservedRaw         = desc("cinch_observed_raw_bytes_total", "Bytes of observed values before compression.", "gateway", "rule", "codec")
	descObservedStored      = desc("cinch_observed_stored_bytes_total", "Bytes that would have been stored for observed values.", "gateway", "rule", "codec")
	descObservedSealSeconds = desc("cinch_observed_seal_cpu_seconds_total", "Time spent compressing observed values, in seconds.", "gateway", "rule", "codec")
	descObservedOpenSeconds = desc("cinch_observed_open_cpu_seconds_total", "Time spent decompressing observed values, in seconds.", "gateway", "rule", "codec")

	descOpened      = desc("cinch_values_opened_total", "Values decompressed.", "gateway", "codec")
	descOpenRaw     = desc("cinch_opened_raw_bytes_total", "Bytes of decompressed values after decompression.", "gateway", "codec")
	descOpenStored  = desc("cinch_opened_stored_bytes_total", "Bytes of decompressed values before decompression, envelopes included.", "gateway", "codec")
	descOpenSeconds = desc("cinch_open_cpu_seconds_total", "Time spent decompressing, in seconds.", "gateway", "codec")

	descLatency  = desc("cinch_added_latency_seconds", "Time that the gateway added to an exchange, in seconds.", "gateway")
	descErrors   = desc("cinch_errors_total", "Errors.", "gateway", "class")
	descGuarded  = desc("cinch_guarded_commands_total", "Commands that compute on values, by how the gateway handled them.", "gateway", "command", "outcome")
	descInflated = desc("cinch_inflated_total", "Compressed values replaced by uncompressed ones in the store.", "gateway", "reason")

	descCPUBudget         = desc("cinch_cpu_budget_cores", "CPU seconds a second that compressing may take.", "gateway")
	descCPUBudgetSpent    = desc("cinch_cpu_budget_spent_seconds_total", "CPU time of compressing that counts against the budget, in seconds.", "gateway")
	descLatencyBudget     = desc("cinch_latency_budget_seconds", "Time that compressing may add to 99 of 100 values, in seconds.", "gateway")
	descLatencyBudgetLate = desc("cinch_latency_budget_late_values_total", "Values to which compressing added more than cinch_latency_budget_seconds.", "gateway")
	descEffortStep        = desc("cinch_effort_step", "How the budgets have most values compressed: 0 as their rules say, 1 fast, 2 lz4, 3 not at all.", "gateway")
	descEffortShare       = desc("cinch_effort_share", "Share of the values of the last seconds by step, from 0 to 1.", "gateway", "step")
	descEffortValues      = desc("cinch_effort_values_total", "Values by the step that the budgets chose for them.", "gateway", "step")
	descEffortChanges     = desc("cinch_effort_step_changes_total", "Changes of cinch_effort_step.", "gateway")

	descBudgetSize    = desc("cinch_budget_size_bytes", "Limit on bytes of values in flight; 0 means no limit.", "direction")
	descBudgetInUse   = desc("cinch_budget_in_use_bytes", "Bytes of values in flight.", "direction")
	descBudgetPeak    = desc("cinch_budget_peak_bytes", "Most bytes of values in flight since the start.", "direction")
	descBudgetWaiting = desc("cinch_budget_waiting", "Values currently waiting for memory budget.", "direction")
	descBudgetWaits   = desc("cinch_budget_waits_total", "Values that had to wait for memory budget.", "direction")
	descBudgetWaited  = desc("cinch_budget_wait_seconds_total", "Time that values waited for memory budget, in seconds.", "direction")
	descBudgetGaveUp  = desc("cinch_budget_gave_up_total", "Values whose connection ended while they waited for memory budget.", "direction")
	descCodecInFlight = desc("cinch_codec_in_flight", "Codec operations running now.")
	descCodecMost     = desc("cinch_codec_in_flight_limit", "Codec operations that may run at a time.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector. All descriptions are constant.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descBuild, descInfo,
		descConns, descConnsTotal, descConnsRejected, descReceived, descSent,
		descUncompressed, descCompressed, descSealed, descSealRaw, descSealStored, descSealSeconds, descLeft, descLeftBytes,
		descObserved, descObservedRaw, descObservedStored, descObservedSealSeconds, descObservedOpenSeconds,
		descOpened, descOpenRaw, descOpenStored, descOpenSeconds,
		descLatency, descErrors, descGuarded, descInflated,
		descCPUBudget, descCPUBudgetSpent, descLatencyBudget, descLatencyBudgetLate,
		descEffortStep, descEffortShare, descEffortValues, descEffortChanges,
		descBudgetSize, descBudgetInUse, descBudgetPeak, descBudgetWaiting,
		descBudgetWaits, descBudgetWaited, descBudgetGaveUp,
		descCodecInFlight, descCodecMost,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	out := emitter{ch}
	out.gauge(descBuild, 1, m.Version, m.Revision, runtime.Version())
	for _, s := range m.Gateways {
		s.collect(out)
	}
	collectBudget(out, m.Requests, "request")
	collectBudget(out, m.Replies, "reply")
	if m.Codec != nil {
		inFlight, most := m.Codec()
		out.gauge(descCodecInFlight, float64(inFlight))
		out.gauge(descCodecMost, float64(most))
	}
}

func collectBudget(out emitter, b *memory.Budget, direction string) {
	use := b.Use()
	out.gauge(descBudgetSize, float64(use.Size), direction)
	out.gauge(descBudgetInUse, float64(use.InUse), direction)
	out.gauge(descBudgetPeak, float64(use.Peak), direction)
	out.gauge(descBudgetWaiting, float64(use.Waiting), direction)
	out.counter(descBudgetWaits, float64(use.Waits), direction)
	out.counter(descBudgetWaited, use.Waited.Seconds(), direction)
	out.counter(descBudgetGaveUp, float64(use.GaveUp), direction)
}

func (s *Stats) collect(out emitter) {
	out.gauge(descInfo, 1, s.name, s.protocol)
	s.collectConns(out)
	s.collectValues(out)
	total := sumUp(s.ruleTotals(), s.openedTotals(), StoresValues(s.protocol))
	out.counter(descUncompressed, float64(total.RawBytes), s.name)
	out.counter(descCompressed, float64(total.StoredBytes), s.name)
	for class, n := range s.errors.all() {
		out.count(descErrors, n, s.name, class)
	}
	for k, n := range s.guarded.all() {
		out.count(descGuarded, n, s.name, k.command, k.outcome)
	}
	for reason, n := range s.inflated.all() {
		out.count(descInflated, n, s.name, reason)
	}
	out.histogram(descLatency, &s.latency, s.name)
	s.effort.Load().collect(out, s.name)
}

func (e *Effort) collect(out emitter, gateway string) {
	s, ok := e.state()
	if !ok {
		return
	}
	if s.Limits.Cores > 0 {
		out.gauge(descCPUBudget, s.Limits.Cores, gateway)
		out.counter(descCPUBudgetSpent, s.Spent.Seconds(), gateway)
	}
	if s.Limits.Latency > 0 {
		out.gauge(descLatencyBudget, s.Limits.Latency.Seconds(), gateway)
		out.counter(descLatencyBudgetLate, float64(s.Late), gateway)
	}
	out.gauge(descEffortStep, float64(s.Step), gateway)
	out.counter(descEffortChanges, float64(s.Changes), gateway)
	for i, share := range s.Shares {
		name := budget.Step(i).String()
		out.gauge(descEffortShare, share, gateway, name)
		out.counter(descEffortValues, float64(s.Values[i]), gateway, name)
	}
}

func (s *Stats) collectConns(out emitter) {
	out.gauge(descConns, float64(s.connsOpen.Load()), s.name)
	out.count(descConnsTotal, &s.connsTotal, s.name)
	out.count(descConnsRejected, &s.connsRejected, s.name)
	for i := range s.sides {
		out.count(descReceived, &s.sides[i].received, s.name, sideNames[i])
		out.count(descSent, &s.sides[i].sent, s.name, sideNames[i])
	}
}

func (s *Stats) collectValues(out emitter) {
	for k, v := range s.sealed.all() {
		out.count(descSealed, &v.values, s.name, k.rule, k.codecName())
		out.count(descSealRaw, &v.rawBytes, s.name, k.rule, k.codecName())
		out.count(descSealStored, &v.storedBytes, s.name, k.rule, k.codecName())
		out.seconds(descSealSeconds, &v.nanos, s.name, k.rule, k.codecName())
	}
	for k, v := range s.left.all() {
		out.count(descLeft, &v.values, s.name, k.rule, k.reason)
		out.count(descLeftBytes, &v.rawBytes, s.name, k.rule, k.reason)
	}
	for k, o := range s.observed.all() {
		out.count(descObserved, &o.values, s.name, k.rule, k.codecName())
		out.count(descObservedRaw, &o.rawBytes, s.name, k.rule, k.codecName())
		out.count(descObservedStored, &o.storedBytes, s.name, k.rule, k.codecName())
		out.seconds(descObservedSealSeconds, &o.nanos, s.name, k.rule, k.codecName())
		out.seconds(descObservedOpenSeconds, &o.openNanos, s.name, k.rule, k.codecName())
	}
	for i := range s.opened {
		v, id := &s.opened[i], codec.ID(i).String()
		if v.values.Load() == 0 {
			continue
		}
		out.count(descOpened, &v.values, s.name, id)
		out.count(descOpenRaw, &v.rawBytes, s.name, id)
		out.count(descOpenStored, &v.storedBytes, s.name, id)
		out.seconds(descOpenSeconds, &v.nanos, s.name, id)
	}
}

// emitter sends values to Prometheus.
type emitter struct{ ch chan<- prometheus.Metric }

func (e emitter) gauge(d *prometheus.Desc, v float64, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (e emitter) counter(d *prometheus.Desc, v float64, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (e emitter) count(d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
	e.counter(d, float64(n.Load()), labels...)
}

func (e emitter) seconds(d *prometheus.Desc, nanos *atomic.Int64, labels ...string) {
	e.counter(d, time.Duration(nanos.Load()).Seconds(), labels...)
}

func (e emitter) histogram(d *prometheus.Desc, h *histogram, labels ...string) {
	counts, total := h.read()
	buckets := make(map[float64]uint64, len(latencyBounds))
	var below uint64
	for i, bound := range latencyBounds {
		below += counts[i]
		buckets[bound.Seconds()] = below
	}
	sum := time.Duration(h.nanos.Load()).Seconds()
	e.ch <- prometheus.MustNewConstHistogram(d, total, sum, buckets, labels...)
}
