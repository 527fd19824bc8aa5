package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/admin/remote"
	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/store/open"
	"github.com/cinch-layer/cinch/internal/ui"
)

// planMessages makes the plan of what a running gateway has measured.
func (o *planOptions) planMessages(ctx context.Context, p plan.Options) (*plan.Report, error) {
	p.Source.Name, p.Pair = open.Redact(o.from[0]), o.pair
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
	case errors.Is(err, plan.ErrNoMessages), errors.Is(err, remote.ErrNotFound):
		return nil, ui.WithHint(fmt.Errorf("%s: %w", p.Source.Name, plan.ErrNoMessages), "it takes a gateway for gRPC, HTTP or MongoDB with sample: true, or a rule with dictionary: auto, and some traffic")
	case err != nil && ctx.Err() == nil:
		return nil, withCode(exitUnreachable, ui.WithHint(fmt.Errorf("%s: %w", p.Source.Name, err), "give the address of a running gateway's admin page, http://host:9470"))
	}
	return r, err
}
