package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
)

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
