package main

import (
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/ui"
)

// gatewayFlag is a gateway that --redis, --grpc and the like ask for.
type gatewayFlag struct{ name, listen, upstream string }

// readGatewayFlags takes LISTEN=URL pairs apart. The gateways are called redis, redis-2 and so on.
func readGatewayFlags(protocol string, pairs []string, example string) ([]gatewayFlag, error) {
	list := make([]gatewayFlag, len(pairs))
	for i, pair := range pairs {
		listen, upstream, ok := strings.Cut(pair, "=")
		if !ok {
			err := fmt.Errorf("--%s: there is no = in it", protocol) // not shown: it may hold a password
			return nil, withCode(exitConfig, ui.WithHint(err, "write %s", example))
		}
		list[i] = gatewayFlag{protocol, listen, upstream}
		if i > 0 {
			list[i].name = fmt.Sprintf("%s-%d", protocol, i+1)
		}
	}
	return list, nil
}

// flagsOr are the pairs of the flags, else of the environment.
func flagsOr(flags []string, environment string) []string {
	if len(flags) > 0 {
		return flags
	}
	return strings.Fields(environment)
}

func (o serveOptions) redisPairs(getenv func(string) string) []string {
	return flagsOr(o.redis, getenv(redisVariable))
}

func (o serveOptions) grpcPairs(getenv func(string) string) []string {
	return flagsOr(o.grpc, getenv(grpcVariable))
}

func (o serveOptions) mongoPairs(getenv func(string) string) []string {
	return flagsOr(o.mongo, getenv(mongoVariable))
}

func (o serveOptions) tarantoolPairs(getenv func(string) string) []string {
	return flagsOr(o.tarantool, getenv(tarantoolVariable))
}

func (o serveOptions) tunnelPairs(getenv func(string) string) (entries, exits []string) {
	return flagsOr(o.tunnel, getenv(tunnelVariable)), flagsOr(o.tunnelExit, getenv(tunnelExitVariable))
}

func (o serveOptions) hasTargets(getenv func(string) string) bool {
	entries, exits := o.tunnelPairs(getenv)
	return len(entries)+len(exits)+len(o.redisPairs(getenv))+len(o.grpcPairs(getenv))+len(o.mongoPairs(getenv))+len(o.tarantoolPairs(getenv)) > 0
}

// grpcGateways are the gateways that --grpc or its variable asks for.
func (o serveOptions) grpcGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules := []config.Rule{config.DefaultGRPCRule()}
	if len(o.rules) > 0 {
		rules, _ = o.givenRules() // load has checked them
	}
	targets, err := readGatewayFlags("grpc", o.grpcPairs(getenv), "LISTEN=URL, as in 127.0.0.1:4317=grpc://host:4317")
	var list []config.Gateway
	for _, t := range targets {
		list = append(list, config.GRPCGateway(t.name, t.listen, t.upstream, rules))
	}
	return list, err
}

// mongoGateways are the gateways that --mongo or its variable asks for.
func (o serveOptions) mongoGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules := []config.Rule{config.DefaultMongoRule()}
	if len(o.rules) > 0 {
		rules, _ = o.givenRules() // load has checked them
	}
	const example = "LISTEN=URI, as in 127.0.0.1:27018=mongodb://host:27017"
	targets, err := readGatewayFlags("mongo", o.mongoPairs(getenv), example)
	if err != nil {
		return nil, err
	}
	var list []config.Gateway
	for i, t := range targets {
		if i > 0 { // a URI of several hosts has made several
			t.name = fmt.Sprintf("mongo-%d", len(list)+1)
		}
		gateways, err := config.MongoGateways(t.name, t.listen, t.upstream, rules)
		if err != nil {
			return nil, withCode(exitConfig, ui.WithHint(fmt.Errorf("--mongo: %w", err), "write %s", example))
		}
		list = append(list, gateways...)
	}
	return list, nil
}

// tarantoolGateways are the gateways that --tarantool or its variable asks for.
func (o serveOptions) tarantoolGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules, err := o.ruleList()
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	targets, err := readGatewayFlags("tarantool", o.tarantoolPairs(getenv), "LISTEN=URL, as in 127.0.0.1:3302=tarantool://host:3301")
	var list []config.Gateway
	for _, t := range targets {
		list = append(list, config.TarantoolGateway(t.name, t.listen, t.upstream, rules))
	}
	return list, err
}

// tunnelGateways are the ends of tunnels that flags or variables ask for.
func (o serveOptions) tunnelGateways(getenv func(string) string) ([]config.Gateway, error) {
	entries, exits := o.tunnelPairs(getenv)
	list, err := tunnelEnds(config.Tunnel, "peer.zone-b:9480", entries)
	if err != nil {
		return nil, err
	}
	more, err := tunnelEnds(config.TunnelExit, "db.internal:5432", exits)
	return append(list, more...), err
}

func tunnelEnds(protocol, example string, pairs []string) ([]config.Gateway, error) {
	ends, err := readGatewayFlags(protocol, pairs, "LISTEN=HOST:PORT, as in 127.0.0.1:5432="+example)
	var list []config.Gateway
	for _, e := range ends {
		list = append(list, config.TunnelGateway(e.name, protocol, e.listen, e.upstream))
	}
	return list, err
}
