package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/admin/remote"
	"github.com/cinch-layer/cinch/internal/history"
	"github.com/cinch-layer/cinch/internal/price"
	"github.com/cinch-layer/cinch/internal/report"
	"github.com/cinch-layer/cinch/internal/ui"
)

type reportOptions struct {
	pages           []string
	reach           remote.Options
	from, to, since string
	cloud, prices   string
	bill            string
	zones           int
	asJSON          bool

	out io.Writer
}

func newReportCommand() *cobra.Command {
	o := reportOptions{}
	cmd := &cobra.Command{
		Use:   "report [ADMIN ...]",
		Short: "State what gateways have saved between two times, in bytes, CPU and money",
		Long: `State what gateways have saved between two times, from the samples that they keep (history in the configuration): bytes,
CPU and money, by gateway and rule, with the interval in which the saving lies. Where the time begins before compression was
turned on, what is sent for each byte that comes in is compared with before, so that growing traffic hides and makes no saving.

ADMIN is the address of an admin page: 9470, host:9470, https://host:9470 or unix:/path. Without one it is 127.0.0.1:9470.
Times are 2026-11-01, 2026-11-01T12:00:00Z, or an age: 24h, 30d.

Exit codes: 0 ok, 1 nothing was counted, 2 the command line is wrong, 10 a page does not answer.`,
		Example: `  cinch report
  cinch report gateway-1:9470 gateway-2:9470 --from 2026-11-01 --to 2026-12-01
  cinch report --from 90d --since 2026-10-15 --bill 1834.20
  cinch report --json | jq .total.net_month`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.pages, o.out = args, cmd.OutOrStdout()
			return runReport(cmd.Context(), o, time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "30d", "`TIME` at which it begins")
	f.StringVar(&o.to, "to", "0h", "`TIME` at which it ends")
	f.StringVar(&o.since, "since", "", "`TIME` at which compression was turned on (default: when something was compressed first)")
	f.IntVar(&o.zones, "zones", 3, "`NUMBER` of zones that clients and servers are spread over; 1: no traffic is billed")
	f.StringVar(&o.cloud, "cloud", "aws", "whose prices between zones: aws, azure or gcp")
	f.StringVar(&o.prices, "prices", "", "`FILE` with prices of your own")
	f.StringVar(&o.bill, "bill", "", "`DOLLARS` that the cloud billed for this traffic since compression was turned on")
	f.BoolVar(&o.asJSON, "json", false, "print a JSON document")
	f.StringVar(&o.reach.TokenFile, "token-file", "", "`FILE` with the pages' token (default $"+remote.TokenVariable+")")
	f.StringVar(&o.reach.CA, "ca", "", "PEM `FILE` with who signs the pages' certificates, instead of the system's")
	return cmd
}

func runReport(ctx context.Context, o reportOptions, now time.Time) error {
	window, price, err := o.read(now)
	if err != nil {
		return withCode(exitUsage, err)
	}
	if len(o.pages) == 0 {
		o.pages = []string{"127.0.0.1:9470"}
	}
	var pages []report.Page
	for _, address := range o.pages {
		page, err := remote.Open(address, o.reach)
		if err != nil {
			return withCode(exitUsage, ui.WithHint(err, "give the address of a running gateway's admin page, as host:9470"))
		}
		pages = append(pages, page)
	}
	counted, err := report.Collect(ctx, pages, window)
	if errors.Is(err, report.ErrNobody) {
		return withCode(exitUnreachable, ui.WithHint(err, "is cinch serve running, and is this the address of its admin page?"))
	}
	var r *report.Report
	if err == nil {
		r, err = report.New(counted, price)
	}
	switch {
	case errors.Is(err, report.ErrNothing):
		return ui.WithHint(err, "without history.path in the configuration a gateway remembers what it has counted since it was started only")
	case err != nil:
		return err
	case o.asJSON:
		return writeJSON(o.out, r)
	}
	return r.Print(o.out)
}

// read makes of flags what they mean.
func (o *reportOptions) read(now time.Time) (w report.Window, r report.Options, err error) {
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"--from", o.from, &w.From}, {"--to", o.to, &w.To}, {"--since", o.since, &r.Since}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = history.ParseTime(t.text, now); err != nil {
			return w, r, fmt.Errorf("%s: %w", t.flag, err)
		}
	}
	if w = report.NewWindow(w.From, w.To); !w.To.After(w.From) {
		return w, r, errors.New("--to is not after --from")
	}
	if o.bill != "" {
		dollars, err := strconv.ParseFloat(o.bill, 64)
		if err != nil || !(dollars >= 0) {
			return w, r, ui.WithHint(fmt.Errorf("--bill: %.40q is no amount", o.bill), "write dollars, as 1834.20; cinch plan --bill FILE finds that line in a report of costs")
		}
		r.Bill = &dollars
	}
	r.Zones = o.zones
	if r.Prices, err = price.For(o.cloud); err == nil && o.prices != "" {
		var text []byte
		if text, err = os.ReadFile(o.prices); err == nil {
			r.Prices, err = r.Prices.With(text)
		}
	}
	return w, r, err
}
