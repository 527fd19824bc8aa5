package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// prometheus is Debian's, with our alerts.
type prometheus struct{ url string }

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	program := testenv.Program(t, "prometheus")
	alerts, err := filepath.Abs("../../docs/operations/cinch-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: cinch, static_configs: [{targets: [%q]}]}]\n", alerts, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprint("127.0.0.1:", testenv.FreePort(t))
	c := exec.Command(program, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("prometheus:\n%s", text)
		}
	})
	p := &prometheus{"http://" + addr}
	testenv.Eventually(t, "Prometheus is ready", func() bool {
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// get reads "data" of an answer.
func (p *prometheus) get(t *testing.T, path string, into any) {
	t.Helper()
	resp, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", path, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// found is how many series an expression has.
func (p *prometheus) found(t *testing.T, expr string) int {
	t.Helper()
	var data struct{ Result []any }
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	return len(data.Result)
}

// await waits until an alert's condition holds: it fires when it has held for long enough.
func (p *prometheus) await(t *testing.T, alert string) {
	t.Helper()
	testenv.Eventually(t, alert+" is raised", func() bool {
		var data struct {
			Alerts []struct {
				Labels map[string]string
			}
		}
		p.get(t, "/api/v1/alerts", &data)
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
