package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/ui"
)

// collectTarantool samples the spaces of a Tarantool server.
func (o *planOptions) collectTarantool(ctx context.Context, p *plan.Options, l planLimits) (*plan.Collector, error) {
	if len(o.dbs) > 0 {
		return nil, wrongUsage(ui.WithHint(errors.New("--db is for Redis"), "choose spaces with --match"))
	}
	conn, name, err := open.ConnectTarantool(ctx, o.from[0])
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	c := plan.NewCollector(plan.CollectOptions{Cost: plan.TupleCost, Seed: o.seed})
	p.Source, err = plan.Tuples(ctx, c, plan.TuplesOptions{
		Conn: conn, Match: o.match, MaxBytes: l.bytes, Share: l.share, Until: l.until, Progress: p.Progress,
	})
	p.Source.Name = name
	switch {
	case errors.Is(err, plan.ErrEmpty):
		return nil, ui.WithHint(fmt.Errorf("%s: %w", name, err), "grant read on the spaces to the user in the URL")
	case errors.Is(err, storetarantool.ErrDenied):
		return nil, ui.WithHint(fmt.Errorf("%s: %w", name, err), "planning takes the right to read the spaces; --match chooses some")
	case err != nil:
		return nil, storetarantool.Explain(name, err)
	}
	return c, nil
}
