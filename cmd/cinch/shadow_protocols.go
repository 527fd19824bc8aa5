package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
	"github.com/cinch-layer/cinch/internal/shadow"
	shadowmongo "github.com/cinch-layer/cinch/internal/shadow/mongo"
	shadowpostgres "github.com/cinch-layer/cinch/internal/shadow/postgres"
	shadowredis "github.com/cinch-layer/cinch/internal/shadow/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

// shadowProtocol is one that can be mirrored.
type shadowProtocol struct {
	flag     string
	variable string        // of serve, that takes LISTEN=URL; none: serve has no gateway for it
	reads    float64       // the share that is mirrored unless another is asked for
	wait     time.Duration // Config.Wait; 0: the default
	patience time.Duration // Config.Patience
	parse    func(url string) (gateway.Upstream, error)
	upstream func(url string) string // as serve takes it
	open     func(ctx context.Context, control, test gateway.Upstream) (shadow.Protocol, error)
}

var shadowRedis = shadowProtocol{
	flag: "--redis", variable: "CINCH_REDIS", reads: 1,
	parse:    func(url string) (gateway.Upstream, error) { return gateway.ParseUpstream(url, "6379") },
	upstream: func(url string) string { return url },
	open: func(ctx context.Context, control, _ gateway.Upstream) (shadow.Protocol, error) {
		return shadowredis.New(ctx, control)
	},
}

var shadowMongo = shadowProtocol{
	flag: "--mongo", variable: "CINCH_MONGO", reads: 1,
	parse:    shadowmongo.ParseURI,
	upstream: shadowmongo.WithoutUser,
	open: func(ctx context.Context, control, test gateway.Upstream) (shadow.Protocol, error) {
		return shadowmongo.New(ctx, control, test)
	},
}

// A statement may take long at a target as it does in production.
var shadowPostgres = shadowProtocol{
	flag: "--postgres", reads: 0.01, wait: 5 * time.Millisecond, patience: 10 * time.Minute,
	parse: postgres.ParseURL,
	open: func(ctx context.Context, control, _ gateway.Upstream) (shadow.Protocol, error) {
		return shadowpostgres.New(ctx, control)
	},
}

// protocol returns what is to be mirrored, where clients connect, and what production is.
func (o *shadowOptions) protocol() (p shadowProtocol, listen, production string, err error) {
	var both string
	for _, one := range []struct {
		protocol shadowProtocol
		both     string
	}{{shadowRedis, o.redis}, {shadowMongo, o.mongo}, {shadowPostgres, o.postgres}} {
		if one.both == "" {
			continue
		}
		if both != "" {
			return p, "", "", withCode(exitUsage, fmt.Errorf("%s and %s exclude each other: a run mirrors one server", p.flag, one.protocol.flag))
		}
		p, both = one.protocol, one.both
	}
	listen, production, ok := strings.Cut(both, "=")
	if !ok || o.control == "" || o.test == "" {
		return p, "", "", withCode(exitUsage, ui.WithHint(errors.New("production and two targets are needed"),
			"write --redis 127.0.0.1:6390=redis://production --control redis://a --test redis://b"))
	}
	return p, listen, production, nil
}

// servers reads the URLs.
func (o *shadowOptions) servers(p shadowProtocol, production, test string) (err error) {
	for _, one := range []struct {
		flag, url string
		to        *gateway.Upstream
	}{{p.flag, production, &o.cfg.Production}, {"--control", o.control, &o.cfg.Control}, {"--test", test, &o.cfg.Test}} {
		if *one.to, err = p.parse(one.url); err != nil {
			return withCode(exitUsage, fmt.Errorf("%s: %w", one.flag, err))
		}
	}
	return nil
}
