package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/metricstest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// docs/METRICS.md documents exactly the existing metrics.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_serve_", processMetrics{}, traceMetrics{}, priceMetrics{}, whatIfMetrics{}, sharedMetrics{})
}

// Metrics of a process: whether it is ready, and the results of reloads.
func TestProcessMetrics(t *testing.T) {
	rules := "[{setting: lz4}]"
	p, _, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	compare := func(want ...string) {
		t.Helper()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(processMetrics{p.health, &p.draining, &p.reloaded, p.started.Certificates()})
		text := gathered(t, registry)
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("no %q in\n%s", line, text)
			}
		}
	}
	compare(`cinch_serve_ready{gateway="a"} 1`, "cinch_serve_draining 0", "cinch_serve_config_last_reload_successful 1",
		`cinch_serve_config_reloads_total{result="done"} 0`)
	p.reload()
	rules = "[{settng: lz4}]"
	p.reload()
	compare(`reloads_total{result="done"} 1`, `reloads_total{result="refused"} 1`, "last_reload_successful 0")
	p.draining.Store(true)
	compare(`cinch_serve_ready{gateway="a"} 0`, "cinch_serve_draining 1")
}

// gathered returns the text of a scrape.
func gathered(t *testing.T, from prometheus.Gatherer) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(from, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// In a chain the certificate that expires first counts.
func TestExpiry(t *testing.T) {
	issued := testenv.NewAuthority(t).Issue(t, "gateway")
	until, err := expiry(config.Certificate{File: issued.Cert})
	if err != nil || until.Before(time.Now()) {
		t.Error(until, err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + ".missing"} {
		if _, err := expiry(config.Certificate{File: file}); err == nil {
			t.Error("no error for", file)
		}
	}
}
