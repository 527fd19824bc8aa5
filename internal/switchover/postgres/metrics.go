package postgres

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// Metrics exports the counters of the gateways of a process. It reads them on each collection and stores
// nothing.
type Metrics struct{ Gateways []*Gateway }

var (
	descTransactions = prometheus.NewDesc("cinch_postgres_transactions_total",
		"Transactions that ended, including statements outside a transaction.", []string{"gateway"}, nil)
	descCancels = prometheus.NewDesc("cinch_postgres_cancels_total",
		"Cancellations requested by clients.", []string{"gateway"}, nil)
	descHolds = prometheus.NewDesc("cinch_postgres_holds_total",
		"Attempts to hold clients, by outcome.", []string{"gateway", "outcome"}, nil)
	descMoved = prometheus.NewDesc("cinch_postgres_sessions_moved_total",
		"Sessions connected to another server, or again to the same one.", []string{"gateway"}, nil)
	descEnded = prometheus.NewDesc("cinch_postgres_sessions_ended_total",
		"Sessions ended because they blocked a hold or a move.", []string{"gateway"}, nil)
	descHeld = prometheus.NewDesc("cinch_postgres_held",
		"1 while clients are held, else 0.", []string{"gateway"}, nil)
	descWaiting = prometheus.NewDesc("cinch_postgres_waiting",
		"Held clients that wait with a request or a new connection.", []string{"gateway"}, nil)
	descLongest = prometheus.NewDesc("cinch_postgres_longest_wait_seconds",
		"Longest time in seconds that a client waited in the current hold, or in the last one.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTransactions, descCancels, descHolds, descMoved, descEnded, descHeld, descWaiting, descLongest} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, g := range m.Gateways {
		g.collect(ch)
	}
}

func (g *Gateway) collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{g.cfg.Name}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, g.cfg.Name)
	}
	counter(descTransactions, g.counts.transactions.Load())
	counter(descCancels, g.counts.cancels.Load())
	counter(descHolds, g.counts.holds.held.Load(), "held")
	counter(descHolds, g.counts.holds.failed.Load(), "failed")
	counter(descMoved, g.counts.moved.Load())
	counter(descEnded, g.counts.ended.Load())
	st := g.State()
	held := 0.0
	if st.Phase != control.Open {
		held = 1
	}
	gauge(descHeld, held)
	gauge(descWaiting, float64(st.Waiting))
	gauge(descLongest, float64(st.Longest))
}
