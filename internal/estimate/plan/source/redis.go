package source

import (
	"context"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// collectRedis samples the databases of a Redis server, or of a cluster's primaries.
func collectRedis(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error) {
	s, err := open.OpenSample(ctx, rawURL, o.Databases)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ko := plan.KeysOptions{Match: o.Match, MaxBytes: o.MaxBytes, Share: o.Share, Until: o.Until, Progress: p.Progress, Indexed: s.Indexed, Activity: s.Activity, CPU: s.CPU}
	for _, n := range s.Nodes() {
		for _, space := range n.Spaces() {
			ko.Spaces = append(ko.Spaces, space)
		}
	}
	c := plan.NewCollector(plan.CollectOptions{Cost: plan.RedisCost, Seed: o.Seed, Foreign: true})
	if p.Source, err = plan.Keys(ctx, c, ko); err != nil {
		return nil, storeredis.ExplainPlan(s.Name(), err)
	}
	p.Source.Name = s.Name()
	if open.IsSingleServer(rawURL) {
		if err := noteServerRole(ctx, s.Nodes()[0], &p.Source); err != nil {
			return nil, storeredis.ExplainPlan(s.Name(), err)
		}
	}
	return c, nil
}

// noteServerRole adds a note if a server is a replica or a node of a cluster: its URL is then no upstream for a
// gateway.
func noteServerRole(ctx context.Context, n *storeredis.Node, info *plan.SourceInfo) error {
	replica, clustered, err := n.Role(ctx)
	if replica {
		info.Notes = append(info.Notes, "this is a replica, which accepts no writes: with --write give the primary's address as --upstream")
	}
	if clustered {
		info.Notes = append(info.Notes, "this is one node of a cluster; the plan covers all nodes. Write redis+cluster://host here and as a gateway's upstream")
	}
	return err
}
