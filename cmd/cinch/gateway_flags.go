package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// gatewayFlag is a flag, with its variable, for pairs LISTEN=UPSTREAM that ask for gateways of a protocol.
type gatewayFlag struct {
	protocol, variable, help string
	example                  string // of a pair
	pairs                    func(*serveOptions) *[]string
	rule                     func() config.Rule // if there is no --rule; nil: the protocol has no rules
	make                     func(name, listen, upstream string, rules []config.Rule) ([]config.Gateway, error)
}

// gatewayFlags lists the flags in the order in which their gateways start.
var gatewayFlags = []gatewayFlag{
	{
		"redis", "CINCH_REDIS", "a gateway to a Redis server, `LISTEN=URL`",
		"LISTEN=URL, as in 127.0.0.1:6380=redis://host:6379",
		func(o *serveOptions) *[]string { return &o.redis }, config.DefaultRule, one(config.RedisGateway),
	},
	{
		"grpc", "CINCH_GRPC", "a gateway to a gRPC server or to another gateway, `LISTEN=URL`; with ?peers=true clients may be gateways; ?history=none uses no links to another gateway",
		"LISTEN=URL, as in 127.0.0.1:4317=grpc://host:4317",
		func(o *serveOptions) *[]string { return &o.grpc }, config.DefaultGRPCRule, one(config.GRPCGateway),
	},
	{
		config.HTTP, "CINCH_HTTP", "a gateway to an HTTP server, `LISTEN=URL`; with ?upstream_encodings=zstd,gzip request bodies get a coding that the server can read; ?peers=true and ?history=none as for --grpc",
		"LISTEN=URL, as in 127.0.0.1:8080=https://host",
		func(o *serveOptions) *[]string { return &o.http }, config.DefaultHTTPRule, one(config.HTTPGateway),
	},
	{
		"mongo", "CINCH_MONGO", "a gateway to a MongoDB server or to another gateway, `LISTEN=URI`; several hosts get a port each from LISTEN on; ?peers=true and ?history=none as for --grpc",
		"LISTEN=URI, as in 127.0.0.1:27018=mongodb://host:27017",
		func(o *serveOptions) *[]string { return &o.mongo }, config.DefaultMongoRule, config.MongoGateways,
	},
	{
		"tarantool", "CINCH_TARANTOOL", "a gateway to a Tarantool server, `LISTEN=URL`, whose user reads the schema",
		"LISTEN=URL, as in 127.0.0.1:3302=tarantool://host:3301",
		func(o *serveOptions) *[]string { return &o.tarantool }, config.DefaultRule, one(config.TarantoolGateway),
	},
	{
		config.Postgres, "CINCH_POSTGRES", "a gateway to a PostgreSQL server that moves clients to another one, `LISTEN=URL`",
		"LISTEN=URL, as in 127.0.0.1:6432=postgres://host:5432",
		func(o *serveOptions) *[]string { return &o.postgres }, nil, one(config.PostgresGateway),
	},
	{
		config.Tunnel, "CINCH_TUNNEL", "tunnel entry, `LISTEN=PEER`: clients connect to LISTEN, and PEER is a --tunnel-exit",
		"LISTEN=HOST:PORT, as in 127.0.0.1:5432=peer.zone-b:9480",
		func(o *serveOptions) *[]string { return &o.tunnel }, nil, tunnelEnd(config.Tunnel),
	},
	{
		config.TunnelExit, "CINCH_TUNNEL_EXIT", "tunnel exit, `LISTEN=UPSTREAM`, for any TCP protocol",
		"LISTEN=HOST:PORT, as in 127.0.0.1:5432=db.internal:5432",
		func(o *serveOptions) *[]string { return &o.tunnelExit }, nil, tunnelEnd(config.TunnelExit),
	},
}

// one adapts the constructor of a protocol with one gateway per pair.
func one(made func(name, listen, upstream string, rules []config.Rule) config.Gateway) func(name, listen, upstream string, rules []config.Rule) ([]config.Gateway, error) {
	return func(name, listen, upstream string, rules []config.Rule) ([]config.Gateway, error) {
		return []config.Gateway{made(name, listen, upstream, rules)}, nil
	}
}

func tunnelEnd(protocol string) func(name, listen, upstream string, rules []config.Rule) ([]config.Gateway, error) {
	return one(func(name, listen, upstream string, _ []config.Rule) config.Gateway {
		return config.TunnelGateway(name, protocol, listen, upstream)
	})
}

func (o *serveOptions) addGatewayFlags(f *pflag.FlagSet) {
	for _, flag := range gatewayFlags {
		f.StringArrayVar(flag.pairs(o), flag.protocol, nil, flag.help+" (may be repeated); variable "+flag.variable)
	}
}

// of returns the pairs of the flag, or else of the environment.
func (f *gatewayFlag) of(o *serveOptions, getenv func(string) string) []string {
	if given := *f.pairs(o); len(given) > 0 {
		return given
	}
	return strings.Fields(getenv(f.variable))
}

// hasTargets reports whether a flag or variable asks for a gateway.
func (o *serveOptions) hasTargets(getenv func(string) string) bool {
	return slices.ContainsFunc(gatewayFlags, func(f gatewayFlag) bool { return len(f.of(o, getenv)) > 0 })
}

// gateways returns the gateways that the flag or variable asks for: redis, redis-2 and so on.
func (f *gatewayFlag) gateways(o *serveOptions, getenv func(string) string) (list []config.Gateway, err error) {
	rules, err := o.givenRules()
	if len(rules) == 0 && f.rule != nil {
		rules = []config.Rule{f.rule()}
	}
	for _, pair := range f.of(o, getenv) {
		listen, upstream, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, f.wrong(errors.New("missing = after LISTEN")) // the pair isn't shown: it may hold a password
		}
		name := f.protocol
		if len(list) > 0 { // a URI of several hosts may have made several
			name = fmt.Sprintf("%s-%d", f.protocol, len(list)+1)
		}
		made, err := f.make(name, listen, upstream, rules)
		if err != nil {
			return nil, f.wrong(err)
		}
		list = append(list, made...)
	}
	return list, err
}

func (f *gatewayFlag) wrong(err error) error {
	return withCode(exitConfig, terminal.WithHint(fmt.Errorf("--%s: %w", f.protocol, err), "write %s", f.example))
}
