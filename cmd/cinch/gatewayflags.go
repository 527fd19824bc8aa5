package main

import (
	"fmt"
	"strings"

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
