package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Warnings returns likely mistakes in a valid configuration. serve starts in spite of them.
func (c *Config) Warnings() []Problem {
	ps := problems{c: c}
	for i := range c.Gateways {
		g := &c.Gateways[i]
		if g.Enabled && len(g.Rules) == 0 && g.compressesByRules() {
			ps.add(g.path+".rules", "add a rule, such as {setting: "+ruleSetting[g.Protocol]+"}", "there are no rules, so the gateway compresses nothing")
		}
		for n := range g.Rules {
			path := fmt.Sprintf("%s.rules[%d]", g.path, n)
			if why, hint := g.neverMatches(n); why != "" {
				ps.add(path, hint, "the rule never matches: %s", why)
			}
		}
	}
	c.addReadableSecrets(&ps)
	return ps.list
}

// ruleSetting holds the setting of the rule that gateways made by flags get, by protocol.
var ruleSetting = map[string]string{
	Redis: "zstd-3, dictionary: auto", Tarantool: "zstd-3, dictionary: auto", Mongo: "zstd-3",
	GRPC: "zstd", HTTP: "auto",
}

// compressesByRules reports whether a gateway without rules would only forward.
func (g *Gateway) compressesByRules() bool {
	switch g.Protocol {
	case Postgres, Tunnel, TunnelExit:
		return false
	}
	return (g.Link == nil || g.Link.History == NoHistory) && !g.Peers && !g.Sample && len(g.Standby) == 0
}

// neverMatches returns why a rule can't match anything, and what to do about it; "" if it may match.
func (g *Gateway) neverMatches(n int) (why, hint string) {
	r := &g.Rules[n]
	if servers, err := g.RedisServers(); g.Protocol == Redis && err == nil && servers.Kind == Cluster && r.DB != nil && *r.DB > 0 {
		return "a cluster has database 0 only", "leave db out"
	}
	if g.Protocol != Mongo && !r.Setting.isRaw() && r.minSize() > g.MaxSeal {
		return fmt.Sprintf("min_size, %s, is above max_seal, %s", r.minSize(), g.MaxSeal), "lower one or raise the other"
	}
	for _, glob := range g.Exclude {
		if g.Protocol == Redis && policy.Covers(glob, r.Key) {
			return fmt.Sprintf("exclude covers all its keys with %q", glob), "drop one of them"
		}
	}
	if slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.To != "" }) {
		return "", "" // with to: plain, the first rule that matches does not always decide
	}
	var first *int
	for _, part := range r.parts(g.Protocol) {
		j := slices.IndexFunc(g.Rules[:n], func(earlier Rule) bool {
			return slices.Contains(earlier.parts(g.Protocol), part) && earlier.covers(r, part, g.Protocol)
		})
		if j < 0 {
			return "", ""
		}
		if first == nil || j > *first {
			first = &j
		}
	}
	return fmt.Sprintf("rules[%d] in front of it matches the same and decides", *first), "put the narrower rule first"
}

// isRaw reports whether the setting leaves values alone.
func (s *Setting) isRaw() bool { return !s.Auto && s.Codec == codec.Raw }

// parts returns the types or directions that a rule covers. Each of them may be shadowed by a different earlier rule.
func (r *Rule) parts(protocol string) (parts []string) {
	switch {
	case protocol == Redis:
		for _, t := range r.Type {
			if t != "string" || r.Field == "" {
				parts = append(parts, string(t))
			}
		}
	case protocol == Tarantool && r.Function != "":
		return []string{"argument"}
	case protocol == Tarantool:
		return []string{"tuple"}
	case len(r.Direction) > 0:
		for _, d := range r.Direction {
			parts = append(parts, string(d))
		}
	case protocol == HTTP:
		return []string{"request"}
	default:
		return []string{"request", "reply"}
	}
	return parts
}

// covers reports whether the rule, which comes first, matches everything of a part that other matches.
func (r *Rule) covers(other *Rule, part, protocol string) bool {
	least := other.minSize()
	if other.Setting.isRaw() && !r.Setting.isRaw() {
		least = max(least, policy.DefaultMinSize) // smaller values are left alone anyway
	}
	if r.minSize() > least || r.MaxSize != 0 && (other.MaxSize == 0 || other.MaxSize > r.MaxSize) {
		return false
	}
	switch {
	case protocol == Redis:
		return (r.DB == nil || other.DB != nil && *r.DB == *other.DB) && policy.Covers(r.Key, other.Key) &&
			(part == "string" || policy.Covers(r.Field, cmp.Or(other.Field, "*")))
	case part == "argument": // raw rules for arguments don't end the search
		return !r.Setting.isRaw() && policy.Covers(r.Function, other.Function) && r.Argument == other.Argument
	case part == "tuple":
		return (r.Unconstrained || !other.Unconstrained) && policy.Covers(r.TupleSpace, cmp.Or(other.TupleSpace, "*")) &&
			policy.Covers(r.Field, cmp.Or(other.Field, "*"))
	}
	space := func(r *Rule) string { return cmp.Or(r.Service, r.Namespace, r.Path, "*") }
	return policy.Covers(space(r), space(other)) && policy.Covers(r.Host, cmp.Or(other.Host, "*")) &&
		coversAll(slices.Concat(r.Method, r.Command), slices.Concat(other.Method, other.Command)) &&
		coversAll(r.ContentType, other.ContentType)
}

// coversAll reports whether each pattern in others is covered by a pattern in list. An empty list of patterns matches
// everything.
func coversAll(list, others []string) bool {
	if len(others) == 0 {
		others = []string{"*"}
	}
	return len(list) == 0 || !slices.ContainsFunc(others, func(o string) bool {
		return !slices.ContainsFunc(list, func(l string) bool { return policy.Covers(l, o) })
	})
}
