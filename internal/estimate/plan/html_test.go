package plan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/price"
)

// The page has the answer, every group, plots, prices with their sources, and what was left out; and its
// structure does not depend on names.
func TestHTML(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	var lines strings.Builder
	for range 500 {
		lines.WriteString(order(r) + "\n")
	}
	write(t, dir, "orders.jsonl", []byte(lines.String()))
	for i := range 10 {
		write(t, dir, fmt.Sprintf("img/%d.jpg", i), noise(r, 3000))
	}
	slow, _ := ParseLink("100mbit,1.5ms")
	o := options(t)
	o.Minimize, o.Links, o.Layout = MinBytes, []Link{slow}, price.Layout{Zones: 3}
	rep := planFiles(t, o, FileOptions{}, dir)
	rep.Left = map[string]float64{"were <b>odd</b>": 3}
	var out bytes.Buffer
	if err := rep.HTML(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"orders.jsonl {id,customer,status…}", "img/*.jpg", "Leave it alone", "frontline", `class="chosen"`, `class="size"`, `class="traffic"`,
		"aws.amazon.com/ebs/pricing", "3 were &lt;b&gt;odd", "95% confidence", "100mbit,1.5ms",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(page, "<b>odd") {
		t.Error("a reason became markup")
	}
}

// A page without groups is complete. On a page with more groups than it shows at once, the table and the bars of the
// largest groups and one group's plots are open, and the rest is folded: a page of 64 groups was 20,571 pixels long
// before.
func TestHTMLManyAndNone(t *testing.T) {
	p, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&Report{Prices: p, Medium: price.OnWire}).HTML(&out); err != nil || !strings.Contains(out.String(), "No group was measured") {
		t.Errorf("%v", err)
	}
	r := &Report{Prices: p, Medium: price.OnWire}
	for i := range 64 {
		g := &GroupPlan{Pattern: fmt.Sprintf("name-%d-", i), Now: 10, Choice: -1, Options: []Option{{Name: "lz4", CompressMicros: 1, Ratio: 1}, {Name: "zstd-1", CompressMicros: 2, Ratio: 2}}}
		g.BillNow.Storage = 1
		r.Groups = append(r.Groups, g)
		r.BillNow = r.BillNow.Add(g.BillNow)
	}
	out.Reset()
	if err := r.HTML(&out); err != nil {
		t.Fatal(err)
	}
	whole := out.String()
	if !strings.Contains(whole, "name-63-") || strings.Count(whole, "<figure>") != plotGroups {
		t.Errorf("%d plots, or no last group", strings.Count(whole, "<figure>"))
	}
	open := regexp.MustCompile(`(?s)<details>.*?</details>`).ReplaceAllString(whole, "")
	for what, c := range map[string]struct {
		of   string
		most int
	}{
		"rows of tables":          {"<tr", 1 + tableGroups + 2 + 1 + 2}, // including headings, other groups, the total, and candidates
		"bars":                    {`class="row"`, 2 * barGroups},
		"plots":                   {"<figure>", openGroups},
		"sections that are open":  {"<section>", 4 + openGroups}, // what to do, bytes, money, what was left out
		"groups' names in titles": {"<h2><bdi>name-", openGroups},
	} {
		if n := strings.Count(open, c.of); n > c.most || n == 0 {
			t.Errorf("%s that are not folded: %d, want at most %d", what, n, c.most)
		}
	}
}
