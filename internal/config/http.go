package config

import (
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// HTTPGateway returns a gateway for HTTP with defaults for everything but its addresses and its rules. The upstream's
// URL may have options: upstream_encodings=zstd,gzip lists codings that it certainly reads, upstream_host=true sends it
// its own name as Host, sample=true measures bodies for cinch plan, peers=true sets Peers, since clients may be
// gateways, and history=client, shared or none sets Link.History.
func HTTPGateway(name, listen, upstream string, rules []Rule) Gateway {
	url, options, _ := strings.Cut(upstream, "?")
	g := RedisGateway(name, listen, strings.TrimSuffix(url, "/"), rules)
	g.Protocol = HTTP
	for o := range strings.SplitSeq(options, "&") {
		switch key, value, _ := strings.Cut(o, "="); {
		case key == "upstream_encodings":
			g.UpstreamEncodings = strings.Split(value, ",")
		case o == "upstream_host=true":
			g.UpstreamHost = true
		case o == "sample=true":
			g.Sample = true
		case o == "peers=true":
			g.Peers = true
		case key == "history":
			g.Link = &Link{History: value}
		case o != "":
			g.Upstream = upstream // parsing it reports the error
		}
	}
	return g
}

// DefaultHTTPRule returns the rule of HTTP gateways that no file describes: bodies of requests from 256 bytes
// on, in the best coding that the upstream is known to read.
func DefaultHTTPRule() Rule {
	r := DefaultRule()
	least := Bytes(256)
	r.MinSize, r.Dictionary = &least, ""
	r.Setting = &Setting{Auto: true}
	return r
}

// httpPort returns the default port of a URL.
func httpPort(url string) string {
	if strings.HasPrefix(url, "https:") {
		return "443"
	}
	return "80"
}

// isContentCoding reports whether HTTP bodies can have that codec; see internal/gateway/http.
func isContentCoding(id codec.ID) bool {
	return id == codec.Zstd || id == codec.Gzip || id == codec.Snappy
}

// checkHTTP checks the keys of gateways for HTTP and refuses them for others. It also checks the keys that
// HTTP shares with gRPC.
func checkHTTP(v *validator, g *Gateway, path string) {
	if g.Protocol != HTTP {
		refuseHTTPKeys(v, g, path)
		return
	}
	if len(g.Exclude) > 0 {
		v.add(path+".exclude", "give a rule for the path setting: raw", "is only for stores")
	}
	checkRange(v, path+".max_streams", g.MaxStreams, 1, 1<<20)
	checkRange(v, path+".max_header", g.MaxHeader, 4<<10, 16<<20)
	v.link(g, path+".link")
	for i, name := range g.UpstreamEncodings {
		if id, err := codec.ParseID(name); err != nil || !isContentCoding(id) {
			v.add(fmt.Sprintf("%s.upstream_encodings[%d]", path, i), "content codings are zstd, gzip, snappy", "unknown coding %q", name)
		}
	}
	for i := range g.Rules {
		checkHTTPRule(v, &g.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i))
	}
}

func refuseHTTPKeys(v *validator, g *Gateway, path string) {
	only := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "", "is only for protocol: http")
		}
	}
	only("upstream_host", g.UpstreamHost)
	for i := range g.Rules {
		r := &g.Rules[i]
		only(fmt.Sprintf("rules[%d].host", i), r.Host != "")
		only(fmt.Sprintf("rules[%d].path", i), r.Path != "")
		only(fmt.Sprintf("rules[%d].content_type", i), len(r.ContentType) > 0)
	}
}

func checkHTTPRule(v *validator, r *Rule, path string) {
	refuseStoreKeys(v, r, path, "write host, path, method, content_type and direction")
	v.glob(path+".host", r.Host)
	v.glob(path+".path", r.Path)
	if r.Path != "" && !strings.HasPrefix(r.Path, "/") && !strings.HasPrefix(r.Path, "*") {
		v.add(path+".path", "for example /api/v1/*", "%q matches nothing: paths begin with a slash", r.Path)
	}
	for i, m := range r.Method {
		v.glob(fmt.Sprintf("%s.method[%d]", path, i), m)
	}
	for i, t := range r.ContentType {
		v.glob(fmt.Sprintf("%s.content_type[%d]", path, i), t)
	}
	if s := r.Setting; s != nil && !s.Auto && (s.Codec != codec.Raw && s.Codec != codec.Proto && !isContentCoding(s.Codec) || s.Dict != 0) {
		v.add(path+".setting", "write auto, zstd-3, gzip-6, snappy, cinch-proto or raw", "HTTP does not support %s", s)
	}
}
