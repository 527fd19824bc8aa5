package testenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PrometheusServer is a running Prometheus from Debian's package.
type PrometheusServer struct{ URL string }

// Prometheus starts a server with this configuration and its data in dir; "" means a new directory. The
// server is stopped when the test ends.
func Prometheus(t testing.TB, config, dir string, args ...string) *PrometheusServer {
	t.Helper()
	program := Program(t, "prometheus")
	own := t.TempDir()
	if dir == "" {
		dir = filepath.Join(own, "data")
	}
	file := filepath.Join(own, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprint("127.0.0.1:", FreePort(t))
	c := exec.Command(program, append([]string{"--config.file", file, "--storage.tsdb.path", dir, "--web.listen-address", addr}, args...)...)
	log, err := os.Create(filepath.Join(own, "log"))
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
	p := &PrometheusServer{"http://" + addr}
	Eventually(t, "Prometheus is ready", func() bool {
		resp, err := http.Get(p.URL + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// Get decodes the "data" field of a response into into.
func (p *PrometheusServer) Get(t testing.TB, path string, into any) {
	t.Helper()
	resp, err := http.Get(p.URL + path)
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

// Found returns the number of series that an expression yields.
func (p *PrometheusServer) Found(t testing.TB, expr string) int {
	t.Helper()
	var data struct{ Result []any }
	p.Get(t, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	return len(data.Result)
}
