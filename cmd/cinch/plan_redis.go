package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

// collectRedis samples the databases of a Redis server, or of a cluster's primaries.
func (o *planOptions) collectRedis(ctx context.Context, p *plan.Options, l planLimits) (*plan.Collector, error) {
	access, err := openStore(ctx, o.from[0])
	if err != nil {
		return nil, err
	}
	defer access.Close()
	dbs := o.dbs
	if u, err := url.Parse(o.from[0]); err == nil && dbs == nil && len(u.Path) > 1 && u.Scheme != "unix" && !open.IsSeveral(o.from[0]) {
		dbs = []int{access.options.DB}
	}
	options := access.options
	options.ReadTimeout, options.WriteTimeout = open.WalkTimeout, open.WalkTimeout
	s, err := storeredis.Open(ctx, storeredis.OpenOptions{Client: options, DBs: dbs, ReadOnly: true})
	if err != nil {
		return nil, planFailure(access, err)
	}
	defer s.Close()
	ko := plan.KeysOptions{Match: o.match, MaxBytes: l.bytes, Share: l.share, Until: l.until, Progress: p.Progress, Indexed: s.Indexed}
	for _, n := range s.Nodes() {
		for _, space := range n.Spaces() {
			ko.Spaces = append(ko.Spaces, space)
		}
	}
	ko.Activity = func(ctx context.Context) (sum store.Activity, err error) {
		for _, n := range s.Nodes() {
			a, err := n.Activity(ctx)
			if err != nil {
				return sum, err
			}
			sum.Reads += a.Reads
			sum.Writes += a.Writes
			sum.Uptime = max(sum.Uptime, a.Uptime)
		}
		return sum, nil
	}
	ko.CPU = func(ctx context.Context) (sum float64, err error) {
		for _, n := range s.Nodes() {
			seconds, err := n.CPU(ctx)
			if err != nil {
				return sum, err
			}
			sum += seconds
		}
		return sum, nil
	}
	c := plan.NewCollector(plan.CollectOptions{Cost: plan.RedisCost, Seed: o.seed})
	if p.Source, err = plan.Keys(ctx, c, ko); err != nil {
		return nil, planFailure(access, err)
	}
	p.Source.Name = access.name
	if !open.IsSeveral(o.from[0]) {
		if err := noteStanding(ctx, s.Nodes()[0], &p.Source); err != nil {
			return nil, planFailure(access, err)
		}
	}
	return c, nil
}

// noteStanding says of a server what makes it a wrong upstream for a gateway.
func noteStanding(ctx context.Context, n *storeredis.Node, info *plan.SourceInfo) error {
	replica, clustered, err := n.Standing(ctx)
	if replica {
		info.Notes = append(info.Notes, "this is a replica, which takes no writes: with --write give the primary's address as --upstream")
	}
	if clustered {
		info.Notes = append(info.Notes, "this is a node of a cluster, all of which was looked at: write redis+cluster://host, which is also what a gateway takes as its upstream")
	}
	return err
}

// planFailure says which rights it takes where one is missing.
func planFailure(s *storeAccess, err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return ui.WithHint(fmt.Errorf("%s: %w", s.name, err), "planning takes +info +dbsize +scan +type +getrange +strlen +get +hlen +hgetall +hscan +memory|usage on the keys; docs/PLAN.md has the whole list")
	}
	return s.failure(err)
}

// withoutDatabase takes the database off a URL: clients of a gateway select their own.
func withoutDatabase(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "unix" || open.IsSeveral(rawURL) {
		return rawURL
	}
	u.Path, u.RawQuery = "", ""
	return u.String()
}
