package main

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// prometheus is a server with Cinch's alerts loaded.
type prometheus struct{ *testenv.PrometheusServer }

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	alerts, err := filepath.Abs("../../docs/operations/cinch-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: cinch, static_configs: [{targets: [%q]}]}]\n", alerts, target)
	return &prometheus{testenv.Prometheus(t, text, "")}
}

// value returns the value of an expression with exactly one series, else NaN.
func (p *prometheus) value(t *testing.T, expr string) float64 {
	t.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	p.Get(t, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	if len(data.Result) != 1 {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(fmt.Sprint(data.Result[0].Value[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// await waits until an alert's condition is true: the alert is pending or firing.
func (p *prometheus) await(t *testing.T, alert string) {
	t.Helper()
	testenv.Eventually(t, alert+" is raised", func() bool {
		var data struct {
			Alerts []struct {
				Labels map[string]string
			}
		}
		p.Get(t, "/api/v1/alerts", &data)
		for _, a := range data.Alerts {
			if a.Labels["alertname"] == alert {
				return true
			}
		}
		return false
	})
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
