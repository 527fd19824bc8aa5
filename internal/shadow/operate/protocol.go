package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
	"github.com/cinch-layer/cinch/internal/shadow"
	shadowmongo "github.com/cinch-layer/cinch/internal/shadow/mongo"
	shadowpostgres "github.com/cinch-layer/cinch/internal/shadow/postgres"
	shadowredis "github.com/cinch-layer/cinch/internal/shadow/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

// Protocol is one that can be mirrored.
type Protocol struct {
	Flag     string
	Variable string        // of serve, that takes LISTEN=URL; none: serve has no gateway for it
	Reads    float64       // the share that is mirrored unless another is asked for
	Wait     time.Duration // Config.Wait; 0: the default
	Patience time.Duration // Config.Patience; 0: the default
	listen   string        // port of examples, beside the server's own
	url      string        // of production in examples
	form     string        // of URLs
	Parse    func(url string) (gateway.Upstream, error)
	dial     func(ctx context.Context, up gateway.Upstream) (net.Conn, error) // a connection that is good for nothing else than that it was made
	upstream func(url string) string                                          // as serve takes it
	Open     func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error)
	Opener   shadow.Opener // of recordings; nil: connections begin with what is passed through
	filters  func(ctx context.Context, production gateway.Upstream, redact []string) (shadow.Filters, error)
}

var protocols = []Protocol{Redis, Mongo, Postgres} // as Listeners has them

// Name is the protocol's in recordings.
func (p Protocol) Name() string { return strings.TrimPrefix(p.Flag, "--") }

// protocolOf is the one of a recording.
func protocolOf(name string) (Protocol, error) {
	for _, p := range protocols {
		if p.Name() == name {
			return p, nil
		}
	}
	return Protocol{}, fmt.Errorf("the recording is of %q, which this program does not know", name)
}

// example is a command line's servers, with those of clients if there are any.
func (p Protocol) example(clients bool) string {
	scheme, _, _ := strings.Cut(p.url, "://")
	both := fmt.Sprintf("--control %s://a --test %s://b", scheme, scheme)
	if !clients {
		return both
	}
	return fmt.Sprintf("%s 127.0.0.1:%s=%s %s", p.Flag, p.listen, p.url, both)
}

// plainly connects to a server whose connections begin with TLS, or with the protocol itself.
func plainly(ctx context.Context, up gateway.Upstream) (net.Conn, error) { return up.Dial(ctx) }

// redisSchemes are those of ParseUpstream that a Redis server may have.
var redisSchemes = []string{"redis", "rediss", "tcp", "tls", "unix"}

func parseRedis(url string) (gateway.Upstream, error) {
	if scheme, _, ok := strings.Cut(url, "://"); ok && !slices.Contains(redisSchemes, scheme) {
		return gateway.Upstream{}, fmt.Errorf("%w: unknown scheme %q", gateway.ErrUpstreamURL, scheme)
	}
	return gateway.ParseUpstream(url, "6379")
}

// Redis is mirrored by package shadow/redis.
var Redis = Protocol{
	Flag: "--redis", Variable: "CINCH_REDIS", Reads: 1,
	listen: "6390", url: "redis://production", form: "redis://[USER:PASSWORD@]HOST[:6379], with rediss: for TLS",
	Parse:    parseRedis,
	dial:     plainly,
	upstream: func(url string) string { return url },
	Open: func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error) {
		return shadowredis.New(ctx, c.Control)
	},
	filters: func(ctx context.Context, production gateway.Upstream, redact []string) (shadow.Filters, error) {
		return shadowredis.NewFilters(ctx, production, redact)
	},
}

// Mongo is mirrored by package shadow/mongo.
var Mongo = Protocol{
	Flag: "--mongo", Variable: "CINCH_MONGO", Reads: 1,
	listen: "27018", url: "mongodb://production", form: "mongodb://[USER:PASSWORD@]HOST[:27017], with /?tls=true for TLS",
	dial:     plainly,
	Parse:    shadowmongo.ParseURI,
	upstream: shadowmongo.WithoutUser,
	Open: func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error) {
		return shadowmongo.New(ctx, c.Control, c.Test)
	},
	filters: func(ctx context.Context, production gateway.Upstream, redact []string) (shadow.Filters, error) {
		f, err := shadowmongo.NewFilters(ctx, production, redact)
		if errors.Is(err, shadowmongo.ErrPattern) {
			err = usage("--redact: %w", err)
		}
		return f, err
	},
}

// Postgres is mirrored by package shadow/postgres. A statement may wait for a checkpoint, or a lock, at a target alone.
var Postgres = Protocol{
	Flag: "--postgres", Reads: 0.01, Wait: 5 * time.Millisecond, Patience: time.Minute,
	listen: "5433", url: "postgres://production", form: "postgres://[USER:PASSWORD@]HOST[:5432][/DATABASE], with ?sslmode=require for TLS",
	Parse: postgres.ParseURL,
	dial:  postgres.Dial,
	Open: func(ctx context.Context, c *shadow.Config) (shadow.Protocol, error) {
		return shadowpostgres.New(ctx, c.Production, c.Control, shadowpostgres.Options{Ignore: c.Ignore, Databases: c.Databases, AllowForeign: c.AllowForeign})
	},
	Opener: shadowpostgres.Door{},
	filters: func(_ context.Context, _ gateway.Upstream, redact []string) (shadow.Filters, error) {
		if len(redact) > 0 {
			return nil, ui.WithHint(usage("--redact: values of PostgreSQL can't be redacted, since only the server knows which column an expression is of"),
				"record on a machine that may hold them, with --recipient")
		}
		return shadowpostgres.NewFilters(), nil
	},
}

// Gateway is a gateway of this program with the given rules, in front of the server at url, which is up.
func (p Protocol) Gateway(up gateway.Upstream, url string, rules []string) (g shadow.Process, err error) {
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
