package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/observe/history"
)

// Rates cover only time in the past; and a gateway's page answers the query for any period.
func TestReportWindow(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for _, from := range []string{"2026-11-01", "90d", "2000-01-01", "0", "1850-01-01", "10s"} {
		o := reportOptions{from: from, to: "2027-12-01", cloud: "aws"}
		o.layout.add(pflag.NewFlagSet("report", pflag.ContinueOnError))
		w, _, err := o.read(now)
		if err != nil {
			t.Errorf("from %s: %v", from, err)
			continue
		}
		if !w.To.Equal(now) {
			t.Errorf("from %s: to %v, and it is %v", from, w.To, now)
		}
		if n := w.To.Sub(w.From)/w.Step + 1; n > history.MaxSteps || n < 1 {
			t.Errorf("from %s: %d steps of %v", from, n, w.Step)
		}
	}
	for _, from := range []string{"0001-01-01T00:00:00Z", "2026-12-01"} {
		o := reportOptions{from: from, to: "2027-12-01", cloud: "aws"}
		o.layout.add(pflag.NewFlagSet("report", pflag.ContinueOnError))
		if w, _, err := o.read(now); err == nil {
			t.Errorf("from %s: %+v", from, w)
		}
	}
}
