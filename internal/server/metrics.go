package server

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis"
)

// processMetrics exports to Prometheus whether clients are served, how reloads went, and when certificates
// expire.
type processMetrics struct {
	health       func() []health
	draining     *atomic.Bool
	reloaded     *reloads
	certificates []config.Certificate
}

// docs/METRICS.md lists the same names: a test compares them.
var (
	descReady    = prometheus.NewDesc("cinch_serve_ready", "1 if the gateway is ready to serve clients, 0 if not.", []string{"gateway"}, nil)
	descDegraded = prometheus.NewDesc("cinch_serve_degraded", "Number of problems of a gateway that is ready.", []string{"gateway"}, nil)
	descDraining = prometheus.NewDesc("cinch_serve_draining", "1 if the process is draining and accepts no more clients, 0 if not.", nil, nil)

	descReloads  = prometheus.NewDesc("cinch_serve_config_reloads_total", "Reloads of the configuration, by result.", []string{"result"}, nil)
	descReloadOK = prometheus.NewDesc("cinch_serve_config_last_reload_successful", "1 if the last reload succeeded; 0 if it was refused and an older configuration is still in force.", nil, nil)
	descReloadAt = prometheus.NewDesc("cinch_serve_config_last_reload_success_timestamp_seconds", "Time at which the configuration in force was read, in seconds since 1970.", nil, nil)

	descExpiry = prometheus.NewDesc("cinch_serve_certificate_expiry_timestamp_seconds", "Time at which the certificates in the file expire, in seconds since 1970.", []string{"gateway", "use"}, nil)
)

// Describe implements prometheus.Collector. All descriptions are constant.
func (m processMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReady, descDegraded, descDraining, descReloads, descReloadOK, descReloadAt, descExpiry} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It asks the gateways, as a probe does.
func (m processMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	draining := m.draining.Load()
	gauge(descDraining, zeroOrOne(draining))
	for _, h := range m.health() {
		gauge(descReady, zeroOrOne(h.err == nil && !draining), h.gateway)
		gauge(descDegraded, float64(len(h.notes)), h.gateway)
	}
	r := m.reloaded.read()
	ch <- prometheus.MustNewConstMetric(descReloads, prometheus.CounterValue, float64(r.done), "done")
	ch <- prometheus.MustNewConstMetric(descReloads, prometheus.CounterValue, float64(r.refused), "refused")
	gauge(descReloadOK, zeroOrOne(r.ok))
	gauge(descReloadAt, float64(r.at.UnixMilli())/1000)
	for _, c := range m.certificates {
		if until, err := expiry(c); err == nil { // an unreadable file has no series, for alerts on absence
			gauge(descExpiry, float64(until.Unix()), c.Gateway, c.Use)
		}
	}
}

func zeroOrOne(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// expiry returns when the first of a file's certificates expires.
func expiry(c config.Certificate) (until time.Time, err error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return until, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return until, err
		}
		if until.IsZero() || cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	if until.IsZero() {
		return until, errors.New("no certificate in the file")
	}
	return until, nil
}

// reloads counts the results of reloads.
type reloads struct {
	mu  sync.Mutex
	now reloadState
}

type reloadState struct {
	done, refused int
	ok            bool      // the last configuration read is in force
	at            time.Time // when the one in force was read
}

// begin records the first configuration, which does not count as a reload.
func (r *reloads) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = reloadState{ok: true, at: time.Now()}
}

func (r *reloads) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.ok = err == nil; !r.now.ok {
		r.now.refused++
		return
	}
	r.now.done++
	r.now.at = time.Now()
}

func (r *reloads) read() reloadState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// whatIfMetrics exports the number of overridden rules to Prometheus, and the cost of sampling for
// /api/whatif.
type whatIfMetrics struct{ gateways []*running }

var (
	descOverrides   = prometheus.NewDesc("cinch_serve_rule_overrides", "Rules with a setting tried on the admin page, in effect until the next reload.", []string{"gateway"}, nil)
	descWhatIf      = prometheus.NewDesc("cinch_serve_whatif_values_total", "Values sampled to measure other settings, by result.", []string{"gateway", "result"}, nil)
	descWhatIfSpent = prometheus.NewDesc("cinch_serve_whatif_cpu_seconds_total", "CPU time spent on measuring other settings, in seconds.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m whatIfMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descOverrides, descWhatIf, descWhatIfSpent} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m whatIfMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, r := range m.gateways {
		if r.whatIf == nil {
			continue
		}
		c := r.whatIf.watch.Counts()
		ch <- prometheus.MustNewConstMetric(descOverrides, prometheus.GaugeValue, float64(len(r.whatIf.overrides.Applied())), r.name)
		ch <- prometheus.MustNewConstMetric(descWhatIf, prometheus.CounterValue, float64(c.Measured), r.name, "measured")
		ch <- prometheus.MustNewConstMetric(descWhatIf, prometheus.CounterValue, float64(c.Dropped), r.name, "dropped")
		ch <- prometheus.MustNewConstMetric(descWhatIfSpent, prometheus.CounterValue, c.Spent.Seconds(), r.name)
	}
}

// sharedMetrics exports the numbers of connections of gateways whose clients share them.
type sharedMetrics struct{ gateways []*running }

var descShared = prometheus.NewDesc("cinch_serve_upstream_connections", "Connections to the upstream of a gateway whose clients share them, by use.", []string{"gateway", "use"}, nil)

// Describe implements prometheus.Collector.
func (sharedMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- descShared }

// Collect implements prometheus.Collector.
func (m sharedMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, r := range m.gateways {
		g, ok := r.gateway.(*redis.Gateway)
		if !ok || !g.SharesConnections() {
			continue
		}
		use := g.Connections()
		for name, n := range map[string]int{"shared": use.Shared, "own": use.Own, "idle": use.Idle} {
			ch <- prometheus.MustNewConstMetric(descShared, prometheus.GaugeValue, float64(n), r.name, name)
		}
	}
}

// priceMetrics exports the prices that the page uses for savings, so that Prometheus can price any period.
type priceMetrics struct {
	gateways []config.Gateway
	current  *atomic.Pointer[loaded]
}

var descPrice = prometheus.NewDesc("cinch_serve_price_dollars", "Price in US dollars of one unit that the gateway counts.", []string{"gateway", "per"}, nil)

// Describe implements prometheus.Collector.
func (priceMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- descPrice }

// Collect implements prometheus.Collector.
func (m priceMetrics) Collect(ch chan<- prometheus.Metric) {
	r := m.current.Load().prices
	saved, second := r.Saving(price.Work{SavedBytes: 1}).Traffic, r.Saving(price.Work{CPUSeconds: 1}).CPU
	for i := range m.gateways {
		g := &m.gateways[i]
		opened := 0.0
		if gateway.StoresValues(g.Protocol) {
			opened = saved
		}
		for per, dollars := range map[string]float64{"saved_byte": saved, "opened_byte": opened, "cpu_second": second} {
			ch <- prometheus.MustNewConstMetric(descPrice, prometheus.GaugeValue, dollars, g.Name, per)
		}
	}
}
