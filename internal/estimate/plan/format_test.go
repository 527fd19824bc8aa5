package plan

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/price"
)

// Text for people has no exponent, no amount of dollars that is below a tenth of a cent or negative by
// rounding, and no comparison in an amount: "$<0.001 (9.73e-06 cores)" and "-$0.00" once occurred.
func TestNumbersForPeople(t *testing.T) {
	p, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, money := range []float64{0, 1e-6, -1e-6, 0.0123, 4.5, 12345.678} {
		bill := price.Bill{Storage: money, Traffic: money / 3, CPU: money / 1000}
		o := Option{Name: "zstd-3", Ratio: 128.4567, After: 100, CompressMicros: 1.23, OpenMicros: 0.01, Cores: 9.73e-06, Bill: bill}
		g := &GroupPlan{
			Pattern: "orders:*", Values: 1e6, Now: 100000, Choice: 0, Options: []Option{o}, BillNow: bill, Why: fewestBytes + extraCost(money),
			Sizes: []SizeCount{{64, 1}},
		}
		r := &Report{Prices: p, Groups: []*GroupPlan{g}, Rates: Rates{Reads: 1.26e-5, Writes: 3.14159e-7}, Now: 100000, After: 100, BillNow: bill, BillAfter: bill, Cores: o.Cores}
		r.Telemetry, r.Crossings = OTLP, []Crossing{{Name: "unchanged", Dollars: money}}
		var page bytes.Buffer
		if err := r.HTML(&page); err != nil {
			t.Fatal(err)
		}
		shown, _, _ := strings.Cut(page.String(), "<bdi>Prices</bdi>") // prices are as published
		seen := regexp.MustCompile(`(?s)<style>.*</style>|<[^>]*>`).ReplaceAllString(shown, " ")
		for _, crossings := range [][]Crossing{r.Crossings, nil} {
			r.Crossings = crossings
			var text bytes.Buffer
			if err := r.Text(&text, TextOptions{Width: 140, Details: true}); err != nil {
				t.Fatal(err)
			}
			seen += text.String()
		}
		for _, bad := range []string{`\d[eE][-+]?\d`, `\$(&lt;|<|-)`, `-\$0(\.0*)?\b[^.]`, `\$0\.00\b`, `\d\.\d{4,}`, `\$\d{4,}`} {
			if found := regexp.MustCompile(".{0,30}" + bad + ".{0,20}").FindString(seen); found != "" {
				t.Errorf("$%v a month: %q", money, found)
			}
		}
	}
}
