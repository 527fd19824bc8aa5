package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/estimate/bill"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/observe/admin/remote"
	"github.com/cinch-layer/cinch/internal/observe/history"
	"github.com/cinch-layer/cinch/internal/observe/report"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

type reportOptions struct {
	pages           []string
	reach           remote.Options
	from, to, since string
	cloud, prices   string
	bill, html      string
	prometheus      string
	packState       string
	match           string
	layout          layoutFlags
	asJSON          bool

	out io.Writer
}

func newReportCommand() *cobra.Command {
	o := reportOptions{}
	cmd := &cobra.Command{
		Use:   "report [ADMIN ...]",
		Short: "State what gateways have saved between two times, in bytes, CPU and money",
		Long: `State what gateways have saved between two times, from the samples that they keep (history in the configuration): bytes,
CPU and money, by gateway and rule, with a confidence interval of the saving. Where the time begins before compression was
turned on, bytes sent for each byte received are compared with those before, so that growing traffic neither hides nor
inflates a saving.

With --pack-state it states what the workers of cinch pack or unpack have done, and their sum, from their state files.

With --prometheus the samples come from a Prometheus that scrapes the gateways, and include exited processes.

ADMIN is the address of an admin page: 9470, host:9470, https://host:9470 or unix:/path. Without one it is 127.0.0.1:9470.
Times are 2026-11-01, 2026-11-01T12:00:00Z, or an age: 24h, 30d.

Exit codes: 0 ok, 1 nothing was counted, 2 the command line is wrong, 10 a page, or Prometheus, does not answer.`,
		Example: `  cinch report
  cinch report gateway-1:9470 gateway-2:9470 --from 2026-11-01 --to 2026-12-01
  cinch report --from 90d --since 2026-10-15 --bill 1834.20
  cinch report --from 30d --bill cur.csv.gz --html saved.html
  cinch report --prometheus http://prometheus:9090 --prometheus-match 'job="cinch"'
  cinch report --pack-state /state/cache
  cinch report --json | jq .total.net_month`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.pages, o.out = args, cmd.OutOrStdout()
			return runReport(cmd.Context(), o, time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "30d", "`TIME` at which the report begins")
	f.StringVar(&o.to, "to", "0h", "`TIME` at which the report ends")
	f.StringVar(&o.since, "since", "", "`TIME` at which compression was turned on (default: when the first value was compressed)")
	f.StringVar(&o.prometheus, "prometheus", "", "ask the Prometheus at `URL` instead of admin pages")
	f.StringVar(&o.match, "prometheus-match", "", "label `MATCHERS` that select the gateways in Prometheus, as job=\"cinch\"")
	f.StringVar(&o.packState, "pack-state", "", "print the progress of cinch pack or unpack instead, summed over workers, from the state files in `DIR`")
	o.layout.add(f)
	f.StringVar(&o.cloud, "cloud", "aws", "cloud whose prices between zones are used: aws, azure or gcp")
	f.StringVar(&o.prices, "prices", "", "`FILE` with your own prices")
	f.StringVar(&o.bill, "bill", "", "`DOLLARS` that the cloud billed for this traffic since compression was turned on, or a FILE with the bill: a cost and usage report of AWS")
	f.BoolVar(&o.asJSON, "json", false, "print a JSON document")
	f.StringVar(&o.html, "html", "", "write the report as a web page to `FILE`, which must not exist: one file, nothing is loaded from elsewhere")
	f.StringVar(&o.reach.TokenFile, "token-file", "", "`FILE` with the token of the pages (default $"+remote.TokenVariable+"), or of Prometheus")
	f.StringVar(&o.reach.CA, "ca", "", "PEM `FILE` with CA certificates of the servers (default: system roots)")
	return cmd
}

func runReport(ctx context.Context, o reportOptions, now time.Time) error {
	window, price, err := o.read(now)
	if err == nil {
		err = nameIsFree("--html", o.html)
	}
	if err != nil {
		return withCode(exitUsage, err)
	}
	if o.packState != "" {
		return showSharedRuns(o.out, o.packState, o.asJSON)
	}
	counted, err := o.collect(ctx, window)
	if errors.Is(err, report.ErrNoAnswer) {
		return withCode(exitUnreachable, terminal.WithHint(err, "%s", o.noAnswerHint(err)))
	}
	var r *report.Report
	if err == nil {
		r, err = report.New(counted, price)
	}
	if errors.Is(err, report.ErrNothing) {
		return terminal.WithHint(err, "%s", o.noSamplesHint())
	}
	if err == nil {
		err = o.addBill(ctx, r)
	}
	if err == nil {
		err = o.writePage(r)
	}
	switch {
	case err != nil:
		return err
	case o.asJSON:
		return writeJSON(o.out, r)
	}
	return r.Print(o.out)
}

// collect queries the pages, or Prometheus.
func (o *reportOptions) collect(ctx context.Context, w report.Window) (*report.Counted, error) {
	if o.prometheus != "" {
		p, err := report.OpenPrometheus(o.prometheus, o.match, o.reach)
		if err != nil {
			return nil, withCode(exitUsage, terminal.WithHint(err, "give the address of Prometheus, as http://prometheus:9090"))
		}
		return report.CollectPrometheus(ctx, p, w)
	}
	if len(o.pages) == 0 {
		o.pages = []string{"127.0.0.1:9470"}
	}
	var pages []report.Page
	for _, address := range o.pages {
		page, err := remote.Open(address, o.reach)
		if err != nil {
			return nil, withCode(exitUsage, terminal.WithHint(err, "give the address of a running gateway's admin page, as host:9470"))
		}
		pages = append(pages, page)
	}
	return report.Collect(ctx, pages, w)
}

func (o *reportOptions) noAnswerHint(err error) string {
	switch {
	case o.prometheus == "":
		return "check that cinch serve is running, and that this is the address of its admin page"
	case errors.Is(err, report.ErrAccess):
		return "give --token-file, or a user in the URL and --password-file"
	case errors.Is(err, report.ErrAnswer):
		return "check that this is the address of Prometheus, and that --prometheus-match has the form job=\"cinch\""
	}
	return "check that this is the address of Prometheus"
}

func (o *reportOptions) noSamplesHint() string {
	if o.prometheus != "" {
		return "check that Prometheus scrapes the gateways, that its retention covers the time, and --prometheus-match"
	}
	return "without history.path in the configuration a gateway's history begins when it was started"
}

// writePage writes the report as a web page, if requested.
func (o *reportOptions) writePage(r *report.Report) error {
	if o.html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		return err
	}
	return terminal.WithHint(plan.CreatePrivate(o.html, b.Bytes()), "choose another name for --html, on a disk with room")
}

// read parses the flags.
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
	if w.To.After(now) {
		w.To = now // rates need a time in the past
	}
	switch {
	case !w.To.After(w.From):
		return w, r, errors.New("--to is not after --from, or --from is in the future")
	case w.To.Sub(w.From) > history.MaxSpan:
		return w, r, errors.New("--from is more than 200 years before --to")
	}
	w = report.NewWindow(w.From, w.To)
	if o.prometheus != "" && len(o.pages) > 0 {
		return w, r, terminal.WithHint(errors.New("--prometheus and admin pages exclude each other"), "leave out %s", o.pages[0])
	}
	if o.packState != "" && (o.prometheus != "" || o.html != "" || o.bill != "" || len(o.pages) > 0) {
		return w, r, errors.New("--pack-state excludes admin pages, --prometheus, --bill and --html")
	}
	if o.prometheus == "" && o.match != "" {
		return w, r, errors.New("--prometheus-match needs --prometheus")
	}
	if r.Bill, err = o.amount(); err != nil {
		return w, r, err
	}
	if r.Layout, r.Assumed, err = o.layout.read(); err != nil {
		return w, r, err
	}
	if r.Prices, err = price.For(o.cloud); err == nil && o.prices != "" {
		var text []byte
		if text, err = os.ReadFile(o.prices); err == nil {
			r.Prices, err = r.Prices.With(text)
		}
	}
	return w, r, err
}

// amount returns the amount of the bill if --bill is one, and not a file.
func (o *reportOptions) amount() (*float64, error) {
	dollars, err := strconv.ParseFloat(o.bill, 64)
	switch {
	case o.bill == "":
		return nil, nil
	case err == nil && dollars >= 0 && !math.IsInf(dollars, 0):
		return &dollars, nil
	}
	if _, err := os.Stat(o.bill); err != nil {
		return nil, terminal.WithHint(fmt.Errorf("--bill: %.80q is neither an amount nor a file", o.bill), "write dollars, as 1834.20, or name a cost and usage report")
	}
	return nil, nil
}

// addBill adds the lines of a bill's file to the report.
func (o *reportOptions) addBill(ctx context.Context, r *report.Report) error {
	if o.bill == "" || r.Bill != nil {
		return nil
	}
	b, err := bill.ReadBetween(ctx, o.bill, r.After.From, r.To)
	switch {
	case errors.Is(err, bill.ErrFormat):
		return terminal.WithHint(err, "export a cost and usage report (CUR) from AWS, as CSV or Parquet; docs/PLAN.md says which columns it needs")
	case errors.Is(err, bill.ErrEmpty):
		return terminal.WithHint(err, "check that the bill covers the report's time")
	case err != nil:
		return err
	}
	return terminal.WithHint(r.AddBill(filepath.Base(o.bill), b), "check that the bill covers the gateways' account and the report's time")
}
