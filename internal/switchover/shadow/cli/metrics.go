package cli

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// metrics collects a run's metrics for Prometheus.
type metrics struct{ run *shadow.Run }

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cinch_shadow_"+name, help, labels, nil)
}

var (
	descOn         = newDesc("mirroring", "1 while the mirror is on, else 0.")
	descClients    = newDesc("clients", "Connected clients.")
	descHeld       = newDesc("held_bytes", "Bytes of the --memory budget in use.")
	descOperations = newDesc("operations_total", "Operations sent to both targets.")
	descEqual      = newDesc("equal_total", "Equal answers of both targets.")
	descShare      = newDesc("compared_share", "Share of the answers that was compared, 0 to 1.")
	descDifferent  = newDesc("different_total", "Answers that differ between the targets; one voids the run.")
	descLost       = newDesc("lost_total", "Operations that a target did not answer.", "target")
	descDropped    = newDesc("dropped_connections_total", "Connections no longer mirrored because their bytes could not be parsed or did not fit into memory.")
	descBatches    = newDesc("batches_total", "Batches observed.")
	descRatio      = newDesc("ratio", "Latency of the test target divided by the control's.", "metric")
	descOutcome    = newDesc("outcome", "1 for the verdict so far: PASS, FAIL, INCONCLUSIVE or VOID.", "outcome")
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descOn, descClients, descHeld, descOperations, descEqual, descShare, descDifferent, descLost, descDropped, descBatches, descRatio, descOutcome,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	r := m.run.Report()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	on := 0.0
	if r.Ended == "" && r.Phase != "" {
		on = 1
	}
	gauge(descOn, on)
	gauge(descClients, float64(m.run.Clients().Open))
	gauge(descHeld, float64(m.run.Held()))
	count(descOperations, r.Operations)
	count(descEqual, r.Compared.Equal)
	gauge(descShare, r.Share)
	count(descDifferent, r.Compared.Different)
	count(descLost, r.Compared.Lost[0], "control")
	count(descLost, r.Compared.Lost[1], "test")
	count(descDropped, r.Dropped)
	count(descBatches, uint64(len(r.Series)))
	gauge(descOutcome, 1, r.Outcome)
	for _, one := range r.Metrics {
		if one.Batches > 0 {
			gauge(descRatio, one.Ratio, one.Name)
		}
	}
}
