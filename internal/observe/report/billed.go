package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/estimate/bill"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// ErrBill reports a bill without anything to compare the report with.
var ErrBill = errors.New("the bill has no traffic between zones in the report's time")

// Billed compares the cloud's bill with what was saved.
type Billed struct {
	Amount  float64     `json:"amount"`  // billed
	Without float64     `json:"without"` // estimated bill without compression
	Saved   float64     `json:"saved"`
	Source  string      `json:"source,omitempty"` // a file; missing: an amount was given
	From    *time.Time  `json:"from,omitempty"`   // period of the file's lines within the report's period; missing: they have no dates
	To      *time.Time  `json:"to,omitempty"`
	Lines   []bill.Type `json:"lines,omitempty"` // for traffic between zones
}

// addAmount adds a bill for this traffic only: without compression it would have been higher in proportion to
// the bytes.
func (r *Report) addAmount(dollars float64) {
	without := dollars / max(1-r.Total.Saving.Value, 1e-6)
	r.Bill = &Billed{Amount: dollars, Without: without, Saved: without - dollars}
}

// AddBill adds the lines of a cloud's bill to the report. They may include other traffic, so the saving is
// the report's own sum, for the part of the period that the bill covers.
func (r *Report) AddBill(source string, b *bill.Report) error {
	zones := b.Of(bill.BetweenZones)
	if zones.Cost <= 0 {
		return fmt.Errorf("%s: %w", source, ErrBill)
	}
	saved := r.Total.Traffic
	if all := r.To.Sub(r.After.From); b.From != nil && all > 0 {
		saved *= min(float64(b.To.Sub(*b.From))/float64(all), 1)
	}
	r.Bill = &Billed{Amount: zones.Cost, Without: zones.Cost + saved, Saved: saved, Source: source, From: b.From, To: b.To, Lines: zones.Types}
	return nil
}

func (b *Billed) text() string {
	switch {
	case b.Source == "":
		return fmt.Sprintf("The bill: %s for this traffic. At the same traffic it would have been about %s without compression, %s more.", terminal.Dollars(b.Amount), terminal.Dollars(b.Without), terminal.Dollars(b.Saved))
	case b.From == nil:
		return fmt.Sprintf("The bill in %s: %s for traffic between zones, in all its lines, as they have no dates. Without compression it would have been about %s, %s more.", b.Source, terminal.Dollars(b.Amount), terminal.Dollars(b.Without), terminal.Dollars(b.Saved))
	}
	return fmt.Sprintf("The bill in %s: %s for traffic between zones from %s to %s. Without compression it would have been about %s, %s more.", b.Source, terminal.Dollars(b.Amount), day(*b.From), day(*b.To), terminal.Dollars(b.Without), terminal.Dollars(b.Saved))
}
