package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	shadowmongo "github.com/cinch-layer/cinch/internal/switchover/shadow/mongo"
	shadowpostgres "github.com/cinch-layer/cinch/internal/switchover/shadow/postgres"
	shadowredis "github.com/cinch-layer/cinch/internal/switchover/shadow/redis"
)

// Protocol describes a protocol that can be mirrored.
type Protocol struct {
	Flag string
	// Variable is the environment variable of serve that takes LISTEN=URL; "": serve has no gateway for the
	// protocol.
	Variable    string
	Reads       float64       // default share of mirrored reads
	Wait        time.Duration // Config.Wait; 0: the default
	Patience    time.Duration // Config.Patience; 0: the default
	examplePort string        // port for clients in examples
	exampleURL  string        // of production, in examples
	urlFormat   string        // form of URLs, for hints
	Parse       func(url string) (endpoint.Upstream, error)
	dial        func(ctx context.Context, up endpoint.Upstream) (net.Conn, error) // to test reachability only
	upstream    func(url string) string                                           // converts a URL for serve
	Open        func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error)
	Opener      shadow.Opener // of recordings; nil: all bytes are passed through
	filters     func(ctx context.Context, production endpoint.Upstream, redact []string) (shadow.Filters, error)
}

var protocols = []Protocol{Redis, Mongo, Postgres} // in the order of Listeners

// Name returns the protocol's name in recordings.
func (p Protocol) Name() string { return strings.TrimPrefix(p.Flag, "--") }

// protocolOf returns the protocol of a recording.
func protocolOf(name string) (Protocol, error) {
	for _, p := range protocols {
		if p.Name() == name {
			return p, nil
		}
	}
	return Protocol{}, fmt.Errorf("the recording has the unknown protocol %q", name)
}

// example returns the flags for an example's servers, with that for clients if clients is set.
func (p Protocol) example(clients bool) string {
	scheme, _, _ := strings.Cut(p.exampleURL, "://")
	both := fmt.Sprintf("--control %s://a --test %s://b", scheme, scheme)
	if !clients {
		return both
	}
	return fmt.Sprintf("%s 127.0.0.1:%s=%s %s", p.Flag, p.examplePort, p.exampleURL, both)
}

// dialDirect dials a server whose connections begin with TLS, or with the protocol itself.
func dialDirect(ctx context.Context, up endpoint.Upstream) (net.Conn, error) { return up.Dial(ctx) }

// redisSchemes are the schemes of ParseUpstream that are valid for a Redis server.
var redisSchemes = []string{"redis", "rediss", "tcp", "tls", "unix"}

func parseRedis(url string) (endpoint.Upstream, error) {
	if scheme, _, ok := strings.Cut(url, "://"); ok && !slices.Contains(redisSchemes, scheme) {
		return endpoint.Upstream{}, fmt.Errorf("%w: unknown scheme %q", endpoint.ErrUpstreamURL, scheme)
	}
	return endpoint.ParseUpstream(url, "6379")
}

// Redis is mirrored by package shadow/redis.
var Redis = Protocol{
	Flag: "--redis", Variable: "CINCH_REDIS", Reads: 1,
	examplePort: "6390", exampleURL: "redis://production", urlFormat: "redis://[USER:PASSWORD@]HOST[:6379], with rediss: for TLS",
	Parse:    parseRedis,
	dial:     dialDirect,
	upstream: func(url string) string { return url },
	Open: func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error) {
		return shadowredis.New(ctx, c.Control)
	},
	filters: func(ctx context.Context, production endpoint.Upstream, redact []string) (shadow.Filters, error) {
		return shadowredis.NewFilters(ctx, production, redact)
	},
}

// Mongo is mirrored by package shadow/mongo.
var Mongo = Protocol{
	Flag: "--mongo", Variable: "CINCH_MONGO", Reads: 1,
	examplePort: "27018", exampleURL: "mongodb://production", urlFormat: "mongodb://[USER:PASSWORD@]HOST[:27017], with /?tls=true for TLS",
	dial:     dialDirect,
	Parse:    shadowmongo.ParseURI,
	upstream: shadowmongo.WithoutUser,
	Open: func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error) {
		return shadowmongo.New(ctx, c.Control, c.Test)
	},
	filters: func(ctx context.Context, production endpoint.Upstream, redact []string) (shadow.Filters, error) {
		f, err := shadowmongo.NewFilters(ctx, production, redact)
		if errors.Is(err, shadowmongo.ErrPattern) {
			err = usage("--redact: %w", err)
		}
		return f, err
	},
}

// Postgres is mirrored by package shadow/postgres. Patience is long, since a statement may wait for a
// checkpoint or a lock at one target only.
var Postgres = Protocol{
	Flag: "--postgres", Reads: 0.01, Wait: 5 * time.Millisecond, Patience: time.Minute,
	examplePort: "5433", exampleURL: "postgres://production", urlFormat: "postgres://[USER:PASSWORD@]HOST[:5432][/DATABASE], with ?sslmode=require for TLS",
	Parse: endpoint.ParsePostgres,
	dial:  func(ctx context.Context, up endpoint.Upstream) (net.Conn, error) { return postgres.Dial(ctx, up, nil) },
	Open: func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error) {
		return shadowpostgres.New(ctx, c.Production, c.Control, shadowpostgres.Options{Ignore: c.Ignore, Databases: c.Databases, AllowForeign: c.AllowForeign})
	},
	Opener: shadowpostgres.Opener{},
	filters: func(_ context.Context, _ endpoint.Upstream, redact []string) (shadow.Filters, error) {
		if len(redact) > 0 {
			return nil, terminal.WithHint(usage("--redact: PostgreSQL values can't be redacted, since only the server knows which column an expression belongs to"),
				"leave it out, and record on a machine that may store the values, with --recipient")
		}
		return shadowpostgres.NewFilters(), nil
	},
}

// Gateway returns a process that runs this program as a gateway with the given rules, in front of the server
// at url; up is the same server.
func (p Protocol) Gateway(up endpoint.Upstream, url string, rules []string) (g shadow.Process, err error) {
	if g.Program, err = os.Executable(); err != nil {
		return g, err
	}
	up.TLS = nil
	g.Args = []string{"serve", "--admin", "off", "--log-level", "warn"}
	for _, r := range rules {
		g.Args = append(g.Args, "--rule", r)
	}
	g.Address = up
	g.Listen = func(addr string) string { return p.Variable + "=" + addr + "=" + p.upstream(url) }
	return g, nil
}
