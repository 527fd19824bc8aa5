package config

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// upstreamHints holds the hint on how to write an upstream, by protocol.
var upstreamHints = map[string]string{
	Redis: "write redis://[user:password@]host[:port], rediss://… for TLS, redis+cluster://host,host,…, redis+sentinel://sentinel,sentinel,…/name, or unix:///path",
	GRPC:  "write grpc://host:port, grpcs://host:port for TLS, or unix:///path; optional parameters: ?peers=true, history=client, shared or none, joined by &",
	HTTP:  "write http://host[:port], https://host[:port], h2c://host:port for HTTP/2 without TLS, or unix:///path; optional parameters: ?upstream_encodings=zstd,gzip, upstream_host=true, sample=true, peers=true, history=client, shared or none, joined by &",
	Mongo: "write mongodb://host[:port], with /?tls=true for TLS",

	Tunnel:     "write host:port of the tunnel-exit, tls://host:port for TLS",
	TunnelExit: "write host:port, tls://host:port for TLS, or unix:///path",

	Postgres:  "write postgres://[user:password@]host[:port], with ?sslmode=require, verify-ca or verify-full for TLS, or postgres:///?host=/directory for a socket in that directory",
	Tarantool: "write tarantool://[user:password@]host[:port], or unix:///path",
}

// parseUpstream reads the upstream's URL.
func (g *Gateway) parseUpstream() (endpoint.Upstream, error) {
	switch g.Protocol {
	case GRPC, Tunnel, TunnelExit:
		return endpoint.ParseUpstream(g.Upstream, "")
	case HTTP:
		return endpoint.ParseUpstream(g.Upstream, httpPort(g.Upstream))
	case Mongo:
		return parseMongoURI(g.Upstream, len(g.Standby) > 0)
	case Postgres:
		return endpoint.ParsePostgres(g.Upstream)
	case Tarantool:
		return endpoint.ParseUpstream(g.Upstream, TarantoolPort)
	}
	s, err := g.RedisServers()
	if err != nil {
		return endpoint.Upstream{}, err
	}
	return s.Hosts[0], nil
}

// checkScheme refuses the URL of another protocol's server.
func (g *Gateway) checkScheme() error {
	scheme, _, _ := strings.Cut(g.Upstream, "://")
	for _, other := range [...]string{Redis, GRPC, HTTP, Tarantool, Postgres} {
		base, _, _ := strings.Cut(scheme, "+")
		if other != g.Protocol && (base == other || base == other+"s") {
			return fmt.Errorf("%s:// is only for protocol: %s", scheme, other)
		}
	}
	return nil
}

// RedisPort is the default port of Redis servers.
const RedisPort = "6379"

// UpstreamOf returns the upstream of g, with its TLS files read.
func (c *Config) UpstreamOf(g *Gateway, log *slog.Logger) (endpoint.Upstream, error) {
	up, err := g.parseUpstream()
	if err != nil || g.UpstreamTLS == nil {
		return up, c.InvalidGateway(g, "upstream", err)
	}
	t := g.UpstreamTLS
	files := endpoint.TLSFiles{
		CA: c.path(t.CA), Cert: c.path(t.Cert), Key: c.path(t.Key),
		ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify, Log: log,
	}
	up.TLS, err = files.ClientConfig()
	return up, c.InvalidGateway(g, "upstream_tls", err)
}
