package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/policy"
)

// TarantoolPort is the default port of Tarantool servers.
const TarantoolPort = "3301"

// Values of sql: which SQL statements may use spaces with rules.
const (
	SQLRefuse     = "refuse"
	SQLProjection = "projection"
	SQLPass       = "pass"
)

// TarantoolGateway returns a gateway for Tarantool with defaults for everything but its addresses and its
// rules.
func TarantoolGateway(name, listen, upstream string, rules []Rule) Gateway {
	g := RedisGateway(name, listen, upstream, rules)
	g.Protocol = Tarantool
	return g
}

// noShards as the only shard says that the server has no other shards, whatever the server itself reports.
const noShards = "none"

// NoShards reports whether the configuration says that the server has no other shards.
func (g *Gateway) NoShards() bool { return len(g.Shards) == 1 && g.Shards[0] == noShards }

// ShardServers returns the shards that the configuration names, with the gateway's user where a URL names
// none, and with the TLS of up, the upstream.
func (g *Gateway) ShardServers(up endpoint.Upstream) (all []endpoint.Upstream, err error) {
	if g.NoShards() {
		return nil, nil
	}
	for _, url := range g.Shards {
		s, err := endpoint.ParseUpstream(url, TarantoolPort)
		if err != nil {
			return nil, err
		}
		if s.User == "" {
			s.User, s.Password = up.User, up.Password
		}
		if s.TLS != nil && up.TLS != nil {
			s.TLS = up.TLS
		}
		all = append(all, s)
	}
	return all, nil
}

// shard checks the URL of a shard.
func (v *validator) shard(url, path string) {
	scheme, _, _ := strings.Cut(url, "://")
	up, err := endpoint.ParseUpstream(url, TarantoolPort)
	switch {
	case err != nil:
		v.add(path, "write tarantool://host:3301, or only none", "%v", err)
	case scheme != Tarantool && scheme != Tarantool+"s" && scheme != "unix":
		v.add(path, "write tarantool://host:3301 for each shard's master, or only none", "%q is not the URL of a Tarantool server", RedactURL(url))
	case up.Database != "":
		v.add(path, "leave it out of the URL", "has a path after the host")
	}
}

// tarantool checks the keys of gateways for Tarantool, and refuses them for others.
func (v *validator) tarantool(g *Gateway, path string) {
	if g.Protocol != Tarantool {
		v.refuseTarantoolKeys(g, path)
		return
	}
	if g.SQL != "" {
		v.oneOf(path+".sql", g.SQL, SQLRefuse, SQLProjection, SQLPass)
	}
	if !g.NoShards() {
		for i, url := range g.Shards {
			v.shard(url, fmt.Sprintf("%s.shards[%d]", path, i))
		}
	}
	for i := range g.Rules {
		v.tarantoolRule(&g.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i))
	}
}

func (v *validator) refuseTarantoolKeys(g *Gateway, path string) {
	only := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "", "is only for protocol: tarantool")
		}
	}
	only("sql", g.SQL != "")
	only("shards", len(g.Shards) > 0)
	for i := range g.Rules {
		r := &g.Rules[i]
		only(fmt.Sprintf("rules[%d].space", i), r.TupleSpace != "")
		only(fmt.Sprintf("rules[%d].function", i), r.Function != "")
		only(fmt.Sprintf("rules[%d].argument", i), r.Argument != "")
		only(fmt.Sprintf("rules[%d].unconstrained", i), r.Unconstrained)
	}
}

func (v *validator) tarantoolRule(r *Rule, path string) {
	var other Rule
	other.setDefaults()
	not := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "write space and field, or function and argument", "is not for protocol: tarantool")
		}
	}
	not("key", r.Key != other.Key)
	not("db", r.DB != nil)
	not("type", !slices.Equal(r.Type, other.Type))
	not("no_sample", len(r.NoSample) > 0)
	not("mode", r.Mode != "")
	not("format", r.Format != "" || r.To != "")
	v.glob(path+".space", r.TupleSpace)
	v.glob(path+".function", r.Function)
	switch {
	case r.Function == "" && r.Argument != "":
		v.add(path+".argument", "write the function's name, too", "needs function")
	case r.Function != "" && (r.TupleSpace != "" || r.Field != ""):
		v.add(path+".function", "write argument: 2, or 2.body for a field of it", "can't be combined with space and field")
	case r.Function != "" && r.Unconstrained:
		v.add(path+".unconstrained", "move it to a rule with space and field", "is only for rules with space and field")
	case r.Function != "" && !isArgument(r.Argument):
		v.add(path+".argument", "write 2 for the second argument, 2.3 or 2.body for a field of it; patterns and deeper fields are not supported", "%q is not an argument", r.Argument)
	}
}

// isArgument accepts "2", "2.3" and "2.body", which the gateway compares literally: patterns, and numbers of
// more deeply nested fields, would match nothing.
func isArgument(text string) bool {
	number, inside, dot := strings.Cut(text, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || dot && inside == "" || strings.ContainsAny(inside, "*?[") {
		return false
	}
	field, _, deeper := strings.Cut(inside, ".")
	_, err = strconv.Atoi(field)
	return !deeper || err != nil
}

// tarantool makes p a rule for fields of tuples, or for an argument of a function.
func (r *Rule) tarantool(p *policy.Rule) {
	if r.Function != "" {
		p.Types, p.Key, p.Field = policy.Argument, r.Function, r.Argument
		return
	}
	p.Types, p.Key, p.Unconstrained = policy.Tuple, cmp.Or(r.TupleSpace, "*"), r.Unconstrained
}
