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

type alert struct{ Alert, Expr string }

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	decode(t, alertsFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var metric = regexp.MustCompile(`\bcinch_[a-z_]+`)

// All metrics of alerts are in docs/METRICS.md, which other tests compare with the code, and all alerts are
// in the runbook.
func TestAlerts(t *testing.T) {
	all := pages(t)
	runbook := all["docs/operations/ALERTS.md"]
	list := alerts(t)
	for _, rule := range list {
		if !strings.Contains(runbook, "\n### "+rule.Alert+"\n") {
			t.Errorf("the runbook has no %s", rule.Alert)
		}
		for _, name := range metric.FindAllString(rule.Expr, -1) {
			if !strings.Contains(all["docs/METRICS.md"], "`"+strings.TrimSuffix(name, "_bucket")+"`") {
				t.Errorf("%s: there is no %s", rule.Alert, name)
			}
		}
	}
	if n := strings.Count(runbook, "\n### "); n != len(list) || n == 0 {
		t.Errorf("%d alerts, %d in the runbook", len(list), n)
	}
}

// promtool checks that expressions parse, and tests when each alert fires and when it does not.
func TestAlertsFire(t *testing.T) {
	promtool := testenv.Program(t, "promtool")
	cases := strings.TrimSuffix(alertsFile, ".yaml") + "_test.yaml"
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", cases}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	var tested struct {
		Tests []struct {
			Cases []struct {
				Name   string `yaml:"alertname"`
				Raised []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	decode(t, cases, &tested)
	raised, quiet := map[string]bool{}, map[string]bool{}
	for _, group := range tested.Tests {
		for _, c := range group.Cases {
			if len(c.Raised) > 0 {
				raised[c.Name] = true
			} else {
				quiet[c.Name] = true
			}
		}
	}
	for _, alert := range alerts(t) {
		if !raised[alert.Alert] || !quiet[alert.Alert] {
			t.Errorf("%s has no case where %s raises it, and one where nothing does", alert.Alert, cases)
		}
	}
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
