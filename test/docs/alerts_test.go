package docs

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/test/testenv"
)

const alertsFile = root + "/docs/operations/cinch-alerts.yaml"

type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
		}
	}
}

var metric = regexp.MustCompile(`\bcinch_[a-z_]+`)

// Alerts are about metrics that docs/METRICS.md has, which other tests hold to the code, and the runbook has all of them.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	all := pages(t)
	runbook := all["docs/operations/ALERTS.md"]
	count := 0
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			count++
			if !strings.Contains(runbook, "\n### "+rule.Alert+"\n") {
				t.Errorf("the runbook has no %s", rule.Alert)
			}
			for _, name := range metric.FindAllString(rule.Expr, -1) {
				if !strings.Contains(all["docs/METRICS.md"], "`"+strings.TrimSuffix(name, "_bucket")+"`") {
					t.Errorf("%s: there is no %s", rule.Alert, name)
				}
			}
		}
	}
	if n := strings.Count(runbook, "\n### "); n != count || count == 0 {
		t.Errorf("%d alerts, %d in the runbook", count, n)
	}
}

// promtool knows whether expressions parse.
func TestAlertsParse(t *testing.T) {
	promtool := testenv.Program(t, "promtool")
	if out, err := exec.Command(promtool, "check", "rules", alertsFile).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
