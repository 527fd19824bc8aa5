package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/internal/plan"
	storemongo "github.com/cinch-layer/cinch/internal/store/mongo"
	"github.com/cinch-layer/cinch/internal/store/open"
	"github.com/cinch-layer/cinch/internal/ui"
)

// collectMongo models what crosses the wire to a MongoDB deployment.
func (o *planOptions) collectMongo(ctx context.Context, p *plan.Options, l planLimits) (*plan.Collector, error) {
	switch {
	case len(o.dbs) > 0:
		return nil, wrongUsage(ui.WithHint(errors.New("--db is for Redis"), "choose namespaces with --match 'shop.*'"))
	case len(o.candidates) > 0:
		return nil, ui.WithHint(errors.New("--candidates is for values"), "MongoDB's messages have snappy, zstd and zlib, and what two gateways agree on; all are measured")
	case o.batch < 0:
		return nil, errors.New("--batch can't be negative")
	}
	s, err := storemongo.Connect(ctx, o.from[0], open.AnswerTimeout)
	if err != nil {
		return nil, mongoFailure(p.Source.Name, err)
	}
	defer s.Close()
	p.Candidates, p.Pair = plan.WireCandidates(), o.pair
	c := plan.NewCollector(plan.CollectOptions{Seed: o.seed})
	p.Source, err = plan.Mongo(ctx, c, plan.MongoOptions{
		Server: s, Match: o.match, MaxBytes: l.bytes, Share: l.share, Until: l.until, Batch: o.batch, Progress: p.Progress,
	})
	if err != nil {
		return nil, mongoFailure(s.Name(), err)
	}
	p.Source.Name = s.Name()
	return c, nil
}

// mongoFailure words an error of a MongoDB server, and gives it its exit code.
func mongoFailure(name string, err error) error {
	if name != "" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case errors.Is(err, plan.ErrEmpty):
		return ui.WithHint(err, "name the database in the URL, mongodb://host/shop, and give the user the role read on it")
	case errors.Is(err, storemongo.ErrURL):
		return wrongUsage(ui.WithHint(err, "write mongodb://user:password@host:27017/?authSource=admin"))
	case errors.Is(err, storemongo.ErrLogin):
		return ui.WithHint(err, "put user and password into the URL, and where the user is kept: mongodb://user:password@host/?authSource=admin")
	case errors.Is(err, storemongo.ErrDenied):
		return ui.WithHint(err, "planning takes the role read on the databases; clusterMonitor adds how often what is done")
	case errors.Is(err, storemongo.ErrUnreachable):
		return withCode(exitUnreachable, ui.WithHint(err, "is the server running, and can it be reached from here? For one member of a replica set add /?directConnection=true"))
	}
	return err
}
