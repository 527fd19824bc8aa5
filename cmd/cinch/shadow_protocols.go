package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow"
	shadowmongo "github.com/cinch-layer/cinch/internal/shadow/mongo"
	shadowredis "github.com/cinch-layer/cinch/internal/shadow/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

// shadowProtocol is one that can be mirrored.
type shadowProtocol struct {
	flag     string
	variable string // of serve, that takes LISTEN=URL
	parse    func(url string) (gateway.Upstream, error)
	upstream func(url string) string // as serve takes it
	open     func(ctx context.Context, control, test gateway.Upstream) (shadow.Protocol, error)
}

var shadowRedis = shadowProtocol{
	flag: "--redis", variable: "CINCH_REDIS",
	parse:    func(url string) (gateway.Upstream, error) { return gateway.ParseUpstream(url, "6379") },
	upstream: func(url string) string { return url },
	open: func(ctx context.Context, control, _ gateway.Upstream) (shadow.Protocol, error) {
		return shadowredis.New(ctx, control)
	},
}

var shadowMongo = shadowProtocol{
	flag: "--mongo", variable: "CINCH_MONGO",
	parse:    shadowmongo.ParseURI,
	upstream: shadowmongo.WithoutUser,
	open: func(ctx context.Context, control, test gateway.Upstream) (shadow.Protocol, error) {
		return shadowmongo.New(ctx, control, test)
	},
}

// protocol returns what is to be mirrored, where clients connect, and what production is.
func (o *shadowOptions) protocol() (p shadowProtocol, listen, production string, err error) {
	p, both := shadowRedis, o.redis
	if o.mongo != "" {
		p, both = shadowMongo, o.mongo
	}
	if o.redis != "" && o.mongo != "" {
		return p, "", "", withCode(exitUsage, errors.New("--redis and --mongo exclude each other: a run mirrors one server"))
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
