package plan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/price"
)

// The page has the answer, every group, plots, prices with their sources, and what was left
// out; and it is the same page whatever names are.
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

// A page of nothing, and one of more groups than have plots.
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
	for i := range 100 {
		r.Groups = append(r.Groups, &GroupPlan{Pattern: fmt.Sprintf("name-%d-", i), Now: 10, Choice: -1, Options: []Option{{Name: "lz4", CompressMicros: 1, Ratio: 1}}})
	}
	out.Reset()
	if err := r.HTML(&out); err != nil || strings.Count(out.String(), "<figure>") > 2*plotGroups || !strings.Contains(out.String(), "name-99-") {
		t.Errorf("%v: %d plots", err, strings.Count(out.String(), "<figure>"))
	}
}
