package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/estimate/bill"
)

func html(t *testing.T, c *Counted, o Options) string {
	t.Helper()
	r, err := New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, r)
}

func written(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("CINCH_REPORT_PAGE"); name != "" { // for inspection
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// The page of the month with growing traffic has the saving, marks the moment, and shows that raw traffic
// alone says nothing.
func TestPageOfMonthThatGrows(t *testing.T) {
	page, raw, stored := month(t)
	c, err := Collect(context.Background(), []Page{page}, NewWindow(start, start.AddDate(0, 0, days)))
	if err != nil {
		t.Fatal(err)
	}
	bill := 1000.0
	text := html(t, c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}, Bill: &bill})
	for _, want := range []string{
		"compression on, 16 Oct", "orders / carts", "Method", "$0.01", prices(t)[price.VCPU].Source[:20], "The bill: $1,000",
		plain(1 - stored/raw), "grew by 45%", "fell by ", "polygon",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if n := len(regexp.MustCompile(`<polygon class="area after"`).FindAllString(text, -1)); n != 1 {
		t.Errorf("%d areas", n)
	}
}

// The lines have a gap where nothing was counted. Without a period before compression no moment is marked.
func TestPageWithGaps(t *testing.T) {
	w := NewWindow(start, start.AddDate(0, 0, 30))
	c := NewCounted(w)
	for i := range w.steps() {
		if i < 300 || i > 400 {
			for _, gateway := range []string{"orders", "<b>"} {
				c.wire(gateway).in[i], c.wire(gateway).out[i] = 100, 60
				u := c.row(gateway, "rule")
				u.raw[i], u.stored[i], u.sealed[i] = 90, 50, 1
			}
		}
	}
	text := html(t, c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if n := strings.Count(text, "<polygon"); n != 2 {
		t.Errorf("%d areas, want one on either side of the gap", n)
	}
	if strings.Contains(text, "compression on,") || strings.Contains(text, "<b>") || !strings.Contains(text, "on all the time") {
		t.Error(text)
	}
}

// The lines of a bill are compared with the saving, for the part of the period that they cover.
func TestBillFile(t *testing.T) {
	page, raw, stored := month(t)
	c, err := Collect(context.Background(), []Page{page}, NewWindow(start, start.AddDate(0, 0, days)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if err != nil {
		t.Fatal(err)
	}
	var cur strings.Builder
	cur.WriteString("line_item_usage_type,line_item_unblended_cost,line_item_usage_amount,line_item_usage_start_date,line_item_usage_end_date\n")
	for n := range days - 5 { // the last days have not been billed
		from := start.AddDate(0, 0, n)
		fmt.Fprintf(&cur, "EUC1-DataTransfer-Regional-Bytes,2,200,%s,%s\n", from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339))
	}
	file := filepath.Join(t.TempDir(), "cur.csv")
	if err := os.WriteFile(file, []byte(cur.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bill.ReadBetween(t.Context(), file, r.After.From, r.To)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddBill("cur.csv", b); err != nil {
		t.Fatal(err)
	}
	about(t, "billed", r.Bill.Amount, 2*10, 0.01)
	about(t, "saved", r.Bill.Saved, (raw-stored)/1e9*0.02*2/3*10/15, 0.02)
	about(t, "without", r.Bill.Without, r.Bill.Amount+r.Bill.Saved, 1e-9)
	text := written(t, r)
	for _, want := range []string{"EUC1-DataTransfer-Regional-Bytes", "The bill in cur.csv: $20.00", "2026-10-26 00:00"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if err := r.AddBill("x", &bill.Report{}); !errors.Is(err, ErrBill) {
		t.Error(err)
	}
}
