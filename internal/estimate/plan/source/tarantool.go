package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// collectTarantool samples the spaces of a Tarantool server.
func collectTarantool(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error) {
	if len(o.Databases) > 0 {
		return nil, &store.HintedError{Err: errors.New("--db is only for Redis"), Class: store.ErrUsage, Help: "choose spaces with --match"}
	}
	conn, up, err := open.ConnectTarantool(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	name := up.String()
	c := plan.NewCollector(plan.CollectOptions{Cost: plan.TupleCost, Seed: o.Seed})
	p.Source, err = plan.Tuples(ctx, c, plan.TuplesOptions{
		Conn: conn, Match: o.Match, MaxBytes: o.MaxBytes, Share: o.Share, Until: o.Until, Progress: p.Progress,
	})
	p.Source.Name = name
	switch {
	case errors.Is(err, plan.ErrEmpty):
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", name, err), "grant read on the spaces to the user in the URL")
	case errors.Is(err, storetarantool.ErrDenied):
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", name, err), "planning needs the right to read the spaces; choose some with --match")
	case err != nil:
		return nil, storetarantool.Explain(name, err)
	}
	return c, nil
}
