package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
)

// DirectionName is a direction of messages: "request" or "reply".
type DirectionName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DirectionName) UnmarshalText(text []byte) error {
	*d = DirectionName(text)
	if d.bit() != 0 {
		return nil
	}
	return terminal.WithHint(fmt.Errorf("unknown direction %q", text), "directions are request and reply")
}

func (d DirectionName) bit() policy.Direction {
	for _, bit := range []policy.Direction{policy.Request, policy.Reply} {
		if bit.String() == string(d) {
			return bit
		}
	}
	return 0
}

// GRPCGateway returns a gateway for gRPC with defaults for everything but its addresses and its rules. The upstream URL
// may have options: peers=true sets Peers, since clients may be gateways, and history=client, shared or none sets
// Link.History.
func GRPCGateway(name, listen, upstream string, rules []Rule) Gateway {
	url, o := cutCinchOptions(upstream)
	switch {
	case len(o.standbys) > 0: // parsing it reports the error
		url = upstream
	case url != upstream:
		url = strings.TrimSuffix(url, "/")
	}
	g := RedisGateway(name, listen, url, rules)
	g.Protocol = GRPC
	o.applyPeers(&g)
	return g
}

// DefaultGRPCRule returns the rule of gRPC gateways that no file describes: all messages from 64 bytes on, in both
// directions, with zstd at its default level for messages. The next hop need not support zstd.
func DefaultGRPCRule() Rule {
	r := DefaultRule()
	r.Setting, r.Dictionary = &Setting{Setting: codec.Setting{Codec: codec.Zstd}}, ""
	return r
}

// grpc checks the keys of gateways for gRPC, and refuses them for others.
func (v *validator) grpc(g *Gateway, path string) {
	if g.Protocol != GRPC {
		v.refuseGRPCKeys(g, path)
		return
	}
	if len(g.Exclude) > 0 {
		v.add(path+".exclude", "give a rule for the service setting: raw", "is only for stores")
	}
	checkRange(v, path+".max_streams", g.MaxStreams, 1, 1<<20)
	if g.UpstreamConnections == NoConnections {
		v.add(path+".upstream_connections", "write auto or a number", "gRPC calls always share connections")
	}
	checkRange(v, path+".window", g.Window, 16<<10, 16<<20)
	checkRange(v, path+".max_header", g.MaxHeader, 4<<10, 16<<20)
	v.link(g, path+".link")
	for i, name := range g.UpstreamEncodings {
		if id, err := codec.ParseID(name); err != nil || !isEncoding(id) {
			v.add(fmt.Sprintf("%s.upstream_encodings[%d]", path, i), "encodings are zstd, minlz, s2, lz4, snappy, gzip, cinch-proto", "unknown encoding %q", name)
		}
	}
	for i := range g.Rules {
		v.grpcRule(&g.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i))
	}
}

// grpcUpstream reports parts of a URL that gRPC does not use.
func (v *validator) grpcUpstream(up endpoint.Upstream, path, hint string) {
	if up.User != "" || up.Password != "" {
		v.add(path, "leave them out of the URL: clients send their own in metadata", "has credentials")
	}
	if up.Database != "" {
		v.add(path, hint, "has a path after the host")
	}
}

// isEncoding reports whether gRPC messages can have that codec: codec/grpccodec has names for these.
func isEncoding(id codec.ID) bool {
	switch id {
	case codec.Zstd, codec.MinLZ, codec.S2, codec.LZ4, codec.Snappy, codec.Gzip, codec.Proto:
		return true
	}
	return false
}

func (v *validator) refuseGRPCKeys(g *Gateway, path string) {
	only := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "", "is only for protocol: grpc")
		}
	}
	isHTTP := g.Protocol == HTTP
	only("max_streams", g.MaxStreams != 0 && !isHTTP)
	if g.UpstreamConnections != 0 && g.Protocol != Redis {
		v.add(path+".upstream_connections", "", "is only for protocol: grpc and redis")
	}
	only("upstream_encodings", len(g.UpstreamEncodings) > 0 && !isHTTP)
	only("window", g.Window != 0 && !g.IsTunnel())
	only("max_header", g.MaxHeader != 0 && !isHTTP)
	only("link", g.Link != nil && !isHTTP && g.Protocol != Mongo)
	for i := range g.Rules {
		r := &g.Rules[i]
		only(fmt.Sprintf("rules[%d].service", i), r.Service != "")
		only(fmt.Sprintf("rules[%d].method", i), len(r.Method) > 0 && !isHTTP)
		if r.Setting != nil && r.Setting.Codec == codec.Proto && !isHTTP {
			v.add(fmt.Sprintf("%s.rules[%d].setting", path, i), "write zstd-3", "%s is only for protocol: grpc and http", r.Setting)
		}
		if g.Protocol != Mongo {
			only(fmt.Sprintf("rules[%d].direction", i), len(r.Direction) > 0 && !isHTTP)
		}
	}
}

// callHint is the hint for patterns in the form "/service/method", in which logs show calls. Such patterns match
// nothing.
const callHint = "for /cortex.Ingester/Push write service: cortex.Ingester, method: Push"

func (v *validator) grpcRule(r *Rule, path string) {
	refuseStoreKeys(v, r, path, "write service, method and direction")
	v.glob(path+".service", r.Service)
	if strings.Contains(r.Service, "/") {
		v.add(path+".service", callHint, "%q has a slash in it", r.Service)
	}
	for i, m := range r.Method {
		path := fmt.Sprintf("%s.method[%d]", path, i)
		v.glob(path, m)
		if strings.HasPrefix(m, "/") {
			v.add(path, callHint, "%q begins with a slash", m)
		}
	}
	if s := r.Setting; s != nil && (s.Codec != codec.Raw && !isEncoding(s.Codec) || s.Dict != 0) {
		v.add(path+".setting", "write zstd-1, minlz, s2, lz4, snappy, gzip-6, cinch-proto, cinch-proto-raw or raw", "gRPC does not support %s", r.Setting)
	}
}

// refuseStoreKeys refuses keys of a rule that are for values in stores.
func refuseStoreKeys(v *validator, r *Rule, path, hint string) {
	var other Rule
	other.setDefaults()
	not := func(key string, given bool) {
		if given {
			v.add(path+"."+key, hint, "is only for stores")
		}
	}
	not("key", r.Key != other.Key)
	not("type", !slices.Equal(r.Type, other.Type))
	not("field", r.Field != "")
	not("db", r.DB != nil)
	not("no_sample", len(r.NoSample) > 0)
	not("mode", r.Mode != "")
	not("share_samples", r.ShareSamples)
	not("format", r.Format != "" || r.To != "")
	refuseDictionary(v, r, path)
}
