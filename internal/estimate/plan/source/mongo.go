package source

import (
	"context"
	"errors"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/mongo"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// collectMongo models the traffic to a MongoDB deployment.
func collectMongo(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error) {
	switch {
	case len(o.Databases) > 0:
		return nil, &store.HintedError{Err: errors.New("--db is only for Redis"), Class: store.ErrUsage, Help: "choose namespaces with --match 'shop.*'"}
	case o.Candidates:
		return nil, terminal.WithHint(errors.New("--candidates is not for MongoDB"), "its messages are always measured with snappy, zstd, zlib and two gateways")
	case o.Batch < 0:
		return nil, errors.New("--batch can't be negative")
	}
	s, err := mongo.Connect(ctx, rawURL, open.AnswerTimeout)
	if err != nil {
		return nil, explainMongo(p.Source.Name, err)
	}
	defer s.Close()
	p.Candidates, p.Pair = plan.WireCandidates(), o.Pair
	c := plan.NewCollector(plan.CollectOptions{Seed: o.Seed})
	p.Source, err = plan.Mongo(ctx, c, plan.MongoOptions{
		Server: s, Match: o.Match, MaxBytes: o.MaxBytes, Share: o.Share, Until: o.Until, Batch: o.Batch, Progress: p.Progress,
	})
	if err != nil {
		return nil, explainMongo(s.Name(), err)
	}
	p.Source.Name = s.Name()
	return c, nil
}

// explainMongo adds the server's name and a hint to an error.
func explainMongo(name string, err error) error {
	if store.IsHinted(err) {
		return err
	}
	e := &store.HintedError{Server: name, Err: err}
	switch {
	case errors.Is(err, plan.ErrEmpty):
		e.Help = "name the database in the URL, mongodb://host/shop, and give the user the role read on it"
	case errors.Is(err, mongo.ErrURL):
		e.Class, e.Help = store.ErrUsage, "write mongodb://user:password@host:27017/?authSource=admin"
	case errors.Is(err, mongo.ErrLogin):
		e.Help = "put user and password into the URL, and where the user is kept: mongodb://user:password@host/?authSource=admin"
	case errors.Is(err, mongo.ErrDenied):
		e.Help = "planning needs the role read on the databases; clusterMonitor adds the numbers of operations"
	case errors.Is(err, mongo.ErrUnreachable):
		e.Class, e.Help = store.ErrUnreachable, "is the server running, and can it be reached from here? For one member of a replica set add /?directConnection=true"
	}
	return e
}
