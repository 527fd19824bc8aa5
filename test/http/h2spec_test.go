package http

import (
	"encoding/xml"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// h2spec's result for a gateway is no worse than that for the standard library's server, without TLS and
// with it, in any case.
func TestH2spec(t *testing.T) {
	t.Parallel()
	h2spec := filepath.Join(tools(t), "h2spec")
	upstream := serve(t, http.HandlerFunc(greet))
	ca := testenv.NewAuthority(t)
	own := ca.Issue(t, "server", "localhost", "127.0.0.1")
	secure := serveTLS(t, own)
	plain := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + upstream})
	byTLS := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "http", Upstream: "http://" + upstream, TLS: true, Settings: "tls: {cert: " + own.Cert + ", key: " + own.Key + "}",
	})
	for _, c := range []struct {
		name, direct, through string
		args                  []string
	}{{"h2c", upstream, plain.Addr, nil}, {"TLS", secure, byTLS.Addr, []string{"-t", "-k"}}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "TLS" {
				testenv.Full(t)
			}
			t.Parallel()
			var direct, through results
			var both sync.WaitGroup // h2spec spends most of its time waiting for answers that never arrive
			both.Go(func() { direct = runH2spec(t, h2spec, c.direct, "2", c.args...) })
			both.Go(func() { through = runH2spec(t, h2spec, c.through, "2", c.args...) })
			both.Wait()
			for name, result := range through { // on a busy machine an answer may take more than two seconds
				if section, _, _ := strings.Cut(name, ": "); result != "ok" && direct[name] == "ok" {
					maps.Copy(through, runH2spec(t, h2spec, c.through, "30", append(c.args, section)...))
				}
			}
			noWorse(t, direct, through)
		})
	}
}

// greet reads a request to its end, as a gateway's upstream does, and answers.
func greet(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		_, _ = io.WriteString(w, "hello")
	}
}

// tools installs the programs of the script test/http/tools and returns their directory.
func tools(t *testing.T) string {
	t.Helper()
	testenv.Program(t, "go")
	out, err := exec.CommandContext(t.Context(), "./tools").Output()
	if err != nil {
		t.Fatalf("test/http/tools: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func serveTLS(t *testing.T, own testenv.Issued) (addr string) {
	t.Helper()
	l := listen(t)
	s := &http.Server{Handler: http.HandlerFunc(greet), TLSConfig: own.TLS(t)}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// results are h2spec's results by case: "ok", or the error.
type results map[string]string

// runH2spec runs all cases, or those of the sections given as the last arguments. seconds is the timeout
// after which a case counts as unanswered.
func runH2spec(t *testing.T, program, addr, seconds string, args ...string) results {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	report := filepath.Join(t.TempDir(), "report.xml")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-h", host, "-p", port, "-o", seconds, "-j", report}, args...)...)
	out, _ := cmd.CombinedOutput() // fails if a case fails
	text, err := os.ReadFile(report)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return nil
	}
	var parsed struct {
		Suites []struct {
			Package string `xml:"package,attr"`
			Cases   []struct {
				Name   string `xml:"classname,attr"`
				Failed *struct {
					Text string `xml:",chardata"`
				} `xml:"failure"`
				Error *struct {
					Text string `xml:",chardata"`
				} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &parsed); err != nil {
		t.Error(err)
		return nil
	}
	all := results{}
	for _, s := range parsed.Suites {
		for _, c := range s.Cases {
			all[s.Package+": "+c.Name] = "ok"
			if c.Failed != nil || c.Error != nil {
				all[s.Package+": "+c.Name] = "failed"
			}
		}
	}
	return all
}

// fewestCases is the least number of cases that h2spec must report; fewer mean that the report is
// incomplete.
const fewestCases = 100

func noWorse(t *testing.T, direct, through results) {
	t.Helper()
	if len(direct) < fewestCases || len(through) != len(direct) {
		t.Fatalf("%d and %d cases", len(direct), len(through))
	}
	failed, directly := 0, 0
	for name, result := range through {
		if direct[name] != "ok" {
			directly++
		}
		if result == "ok" {
			continue
		}
		failed++
		t.Logf("fails: %s, direct: %s", name, direct[name])
		if direct[name] == "ok" {
			t.Errorf("%s: %s", name, result)
		}
	}
	t.Logf("%d cases, %d of them fail, %d of the standard library's", len(through), failed, directly)
}
