package page

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cinch-layer/cinch/test/testenv"
)

// shown is a figure on the page: its value and its text.
type shown struct {
	Gateway, Figure, Text string
	Value                 float64
}

// figures returns all figures on the page by gateway ("": total) and name.
func (w *tab) figures() map[string]shown {
	w.t.Helper()
	var list []shown
	w.eval(`[...document.querySelectorAll("[data-figure]")].map((n) => ({
		gateway: n.closest("[data-gateway]")?.dataset.gateway ?? "", figure: n.dataset.figure, value: Number(n.dataset.value), text: n.textContent,
	}))`, &list)
	all := map[string]shown{}
	for _, f := range list {
		if was, ok := all[f.Gateway+" "+f.Figure]; ok && was.Value != f.Value {
			w.t.Errorf("the page has two values of %s %s: %v and %v", f.Gateway, f.Figure, was.Value, f.Value)
		}
		all[f.Gateway+" "+f.Figure] = f
	}
	return all
}

// ruleRow is the text of a rule's row.
type ruleRow struct{ Gateway, Rule, Compressed, Left, Before, After, Ratio string }

func (w *tab) rules() (rows []ruleRow) {
	w.t.Helper()
	w.eval(`[...document.querySelectorAll("[data-gateway] tr")].flatMap((row) => {
		const cell = (label) => row.querySelector("[data-label='" + label + "']")?.innerText.trim() ?? "";
		const rule = row.querySelector("th[scope=row] strong")?.innerText;
		return rule && cell("compressed") ? [{ gateway: row.closest("[data-gateway]").dataset.gateway, rule, compressed: cell("compressed"), left: cell("left"), before: cell("before"), after: cell("after"), ratio: cell("ratio") }] : [];
	})`, &rows)
	return rows
}

// counted is the parsed content of /metrics.
type counted map[string]*dto.MetricFamily

// countedAt reads /metrics.
func countedAt(t *testing.T, admin string) counted {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(testenv.AdminPage(t, admin, "/metrics"))))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sum adds all samples of a counter or gauge with these labels, given as pairs of name and value.
func (c counted) sum(name string, labels ...string) (sum float64) {
	family := c[name]
	if family == nil {
		return 0
	}
	for _, m := range family.Metric {
		if fits(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

func fits(m *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] }) {
			return false
		}
	}
	return true
}

// expected returns the page's figures as computed from /metrics.
func (c counted) expected(names []string) map[string]float64 {
	want, all := map[string]float64{}, map[string]float64{}
	for _, name := range names {
		one := map[string]float64{
			"raw_bytes":    c.sum("cinch_uncompressed_bytes_total", "gateway", name),
			"stored_bytes": c.sum("cinch_compressed_bytes_total", "gateway", name),
			"cpu_seconds":  c.sum("cinch_seal_cpu_seconds_total", "gateway", name) + c.sum("cinch_open_cpu_seconds_total", "gateway", name),
		}
		for figure, v := range one {
			want[name+" "+figure] = v
			all[figure] += v
		}
	}
	for figure, v := range all {
		want[" "+figure] = v
	}
	for _, name := range append(names, "") {
		want[name+" saved_bytes"] = want[name+" raw_bytes"] - want[name+" stored_bytes"]
		want[name+" ratio"] = 0
		if stored := want[name+" stored_bytes"]; stored > 0 {
			want[name+" ratio"] = want[name+" raw_bytes"] / stored
		}
	}
	return want
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)) }

var gatewayNames = []string{"test", "sessions", "orders", "events", "documents"}

// equalFigures waits until the page shows the final figures and compares them all with /metrics. The load
// must have ended.
func equalFigures(t *testing.T, w *tab, world *world) {
	w.unfold(true)
	want := countedAt(t, world.Admin).expected(gatewayNames)
	var differ []string
	eventually(t, "the page shows the last figures", func() bool {
		want = countedAt(t, world.Admin).expected(gatewayNames)
		differ = compare(want, w.figures())
		return len(differ) == 0 || len(want) == 0
	})
	figures := w.figures()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		got, ok := figures[key]
		if !ok {
			t.Errorf("%s is not on the page", key)
		} else if read, err := number(got.Text); err != nil || math.Abs(math.Abs(got.Value)-read) > 0.006*read+0.0051 {
			t.Errorf("%s: people read %q, which is %v", key, got.Text, got.Value)
		}
	}
	if figures["test saved_bytes"].Value < 10e3 {
		t.Errorf("there was no load: %+v", figures["test saved_bytes"])
	}
	t.Logf("%d figures agree: %+v", len(want), figures[" saved_bytes"])
	equalRules(t, w, countedAt(t, world.Admin))
	w.unfold(false)
}

func compare(want map[string]float64, figures map[string]shown) (differ []string) {
	for key, v := range want {
		if got, ok := figures[key]; ok && !near(got.Value, v) {
			differ = append(differ, fmt.Sprintf("%s: %v, /metrics says %v", key, got.Value, v))
		}
	}
	return differ
}

// equalRules compares the rows of rules with /metrics.
func equalRules(t *testing.T, w *tab, c counted) {
	t.Helper()
	rows := w.rules()
	if len(rows) != 7 {
		t.Errorf("%d rules on the page: %+v", len(rows), rows)
	}
	for _, r := range rows {
		of := []string{"gateway", r.Gateway, "rule", r.Rule}
		left := c.sum("cinch_value_left_bytes_total", of...)
		raw, stored := c.sum("cinch_value_raw_bytes_total", of...)+left, c.sum("cinch_value_stored_bytes_total", of...)+left
		for what, want := range map[string]float64{
			r.Compressed: c.sum("cinch_values_sealed_total", of...), r.Left: c.sum("cinch_values_left_total", of...), r.Before: raw, r.After: stored, r.Ratio: ratioOf(raw, stored),
		} {
			if got, err := number(what); err != nil || math.Abs(got-want) > 0.006*want+0.0051 {
				t.Errorf("%s, %s: %q on the page, /metrics says %v", r.Gateway, r.Rule, what, want)
			}
		}
	}
}

func ratioOf(raw, stored float64) float64 {
	if stored == 0 {
		return 0
	}
	return raw / stored
}

var units = map[string]float64{
	"": 1, "×": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "k": 1e3, "M": 1e6, "ms": 1e-3, "s": 1,
}

// number parses a formatted number of the page: "2.48 MiB", "4.23×", "12,345".
func number(text string) (float64, error) {
	if text == "–" {
		return 0, nil
	}
	text = strings.ReplaceAll(text, ",", "")
	end := strings.LastIndexAny(text, "0123456789") + 1
	unit, ok := units[strings.TrimSpace(text[end:])]
	if !ok {
		return 0, fmt.Errorf("%q has an unknown unit", text)
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	return n * unit, err
}
