package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/observe/admin/remote"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// takeTelemetry uses the page given by --otlp or --remote-write as the source.
func (o *planOptions) takeTelemetry() error {
	if o.otlp == "" && o.remoteWrite == "" {
		return nil
	}
	if o.otlp != "" && o.remoteWrite != "" || len(o.from) > 0 || o.bill != "" || o.disk.filesystem != "" {
		return wrongUsage(terminal.WithHint(errors.New("--otlp and --remote-write can't be combined with a source, --bill or --disk"), "run the command once for each"))
	}
	page := cmp.Or(o.otlp, o.remoteWrite)
	if !isAdminURL(page) {
		return wrongUsage(terminal.WithHint(fmt.Errorf("%q is not the address of an admin page", page), "give the page of a gateway that has sample: true and through which telemetry passes, as in http://127.0.0.1:9470"))
	}
	o.from = []string{page}
	return nil
}

// telemetry returns which messages of the page to plan for.
func (o *planOptions) telemetry() plan.Telemetry {
	switch {
	case o.otlp != "":
		return plan.OTLP
	case o.remoteWrite != "":
		return plan.RemoteWrite
	}
	return ""
}

// planMessages makes the plan of what a running gateway has measured.
func (o *planOptions) planMessages(ctx context.Context, p plan.Options) (*plan.Report, error) {
	p.Source.Name, p.Pair, p.Telemetry = open.Redact(o.from[0]), o.pair, o.telemetry()
	page, err := remote.Open(o.from[0], remote.Options{})
	if err != nil {
		return nil, err
	}
	status, err := page.Status(ctx)
	var r *plan.Report
	if err == nil {
		err = page.Get(ctx, "/api/messages", func(body io.Reader) (err error) {
			r, err = plan.Messages(body, status.UptimeSeconds, p)
			return err
		})
	}
	switch {
	case errors.Is(err, plan.ErrNotAmong):
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", p.Source.Name, err), "cinch plan %s lists the gateway's traffic", p.Source.Name)
	case errors.Is(err, plan.ErrNoMessages), errors.Is(err, remote.ErrNotFound):
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", p.Source.Name, plan.ErrNoMessages), "this needs a gateway for gRPC, HTTP or MongoDB with sample: true, and some traffic")
	case err != nil && ctx.Err() == nil:
		return nil, withCode(exitUnreachable, terminal.WithHint(fmt.Errorf("%s: %w", p.Source.Name, err), "give the address of a running gateway's admin page, http://host:9470"))
	}
	return r, err
}
