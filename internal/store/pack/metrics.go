package pack

import "github.com/prometheus/client_golang/prometheus"

// Metrics exports the status of background packers to Prometheus. It stores nothing itself. Packers must be
// set before it is registered.
type Metrics struct {
	Packers []NamedBackground
}

// NamedBackground is the packer of the gateway called Gateway.
type NamedBackground struct {
	Gateway string
	*Background
}

// docs/METRICS.md lists the same names; a test compares them.
var (
	descWanted   = desc("cinch_pack_wanted", "1 if background packing is configured, and the gateway is enabled and has rules.", "gateway")
	descRunning  = desc("cinch_pack_running", "1 while a pass is running in this process.", "gateway")
	descPaused   = desc("cinch_pack_paused", "1 while an operator has paused background packing.", "gateway")
	descDone     = desc("cinch_pack_done_ratio", "Share of the running pass that is done, from 0 to 1.", "gateway")
	descDuty     = desc("cinch_pack_duty_ratio", "Share of the time that packing works, lower when the server is slow; of several nodes the lowest.", "gateway")
	descPasses   = desc("cinch_pack_passes_total", "Passes that have ended in this process, by result.", "gateway", "result")
	descLast     = desc("cinch_pack_last_pass_timestamp_seconds", "When the last complete pass in this process ended, in Unix time, in seconds.", "gateway")
	descKeys     = desc("cinch_pack_keys_total", "Keys examined.", "gateway")
	descRead     = desc("cinch_pack_read_bytes_total", "Bytes of values read.", "gateway")
	descValues   = desc("cinch_pack_values_total", "Values replaced; with mode: estimate, values that would be replaced.", "gateway")
	descBefore   = desc("cinch_pack_before_bytes_total", "Bytes that the server allocated for the replaced values, computed.", "gateway")
	descAfter    = desc("cinch_pack_after_bytes_total", "Bytes that the server allocates for the envelopes of these values, computed.", "gateway")
	descRaced    = desc("cinch_pack_raced_total", "Values that a client changed before they were replaced.", "gateway")
	descRebuilt  = desc("cinch_pack_rebuilt_total", "Hashes converted to listpacks again.", "gateway")
	descProblems = desc("cinch_pack_problems_total", "Values that could not be packed.", "gateway")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector. All descriptions are constant.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descWanted, descRunning, descPaused, descDone, descDuty, descPasses, descLast, descKeys, descRead,
		descValues, descBefore, descAfter, descRaced, descRebuilt, descProblems,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, p := range m.Packers {
		s := p.Status()
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, p.Gateway)
		}
		counter := func(d *prometheus.Desc, v int64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{p.Gateway}, labels...)...)
		}
		gauge(descWanted, number(s.Wanted))
		gauge(descRunning, number(s.Running))
		gauge(descPaused, number(s.Paused))
		gauge(descDone, s.Done)
		gauge(descDuty, s.Duty)
		if !s.Last.IsZero() {
			gauge(descLast, float64(s.Last.UnixMilli())/1000)
		}
		for _, result := range []string{PassDone, PassFailed, PassInterrupted} {
			counter(descPasses, s.Passes[result], result)
		}
		counter(descKeys, s.Report.Keys)
		counter(descRead, s.Report.BytesRead)
		counter(descValues, s.Report.Replaced)
		counter(descBefore, s.Report.CostBefore)
		counter(descAfter, s.Report.CostAfter)
		counter(descRaced, s.Report.Conflicts)
		counter(descRebuilt, s.Report.Rebuilt)
		counter(descProblems, s.Report.Problems)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
