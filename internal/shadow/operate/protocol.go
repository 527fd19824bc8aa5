package operate

import (
	"context"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
	"github.com/cinch-layer/cinch/internal/shadow"
	shadowmongo "github.com/cinch-layer/cinch/internal/shadow/mongo"
	shadowpostgres "github.com/cinch-layer/cinch/internal/shadow/postgres"
	shadowredis "github.com/cinch-layer/cinch/internal/shadow/redis"
)

// Protocol is one that can be mirrored.
type Protocol struct {
	Flag     string
	Variable string        // of serve, that takes LISTEN=URL; none: serve has no gateway for it
	Reads    float64       // the share that is mirrored unless another is asked for
	Wait     time.Duration // Config.Wait; 0: the default
	Patience time.Duration // Config.Patience
	Parse    func(url string) (gateway.Upstream, error)
	upstream func(url string) string // as serve takes it
	Open     func(ctx context.Context, control, test gateway.Upstream) (shadow.Protocol, error)
}

// Redis is mirrored by package shadow/redis.
var Redis = Protocol{
	Flag: "--redis", Variable: "CINCH_REDIS", Reads: 1,
	Parse:    func(url string) (gateway.Upstream, error) { return gateway.ParseUpstream(url, "6379") },
	upstream: func(url string) string { return url },
	Open: func(ctx context.Context, control, _ gateway.Upstream) (shadow.Protocol, error) {
		return shadowredis.New(ctx, control)
	},
}

// Mongo is mirrored by package shadow/mongo.
var Mongo = Protocol{
	Flag: "--mongo", Variable: "CINCH_MONGO", Reads: 1,
	Parse:    shadowmongo.ParseURI,
	upstream: shadowmongo.WithoutUser,
	Open: func(ctx context.Context, control, test gateway.Upstream) (shadow.Protocol, error) {
		return shadowmongo.New(ctx, control, test)
	},
}

// Postgres is mirrored by package shadow/postgres. A statement may take long at a target as it does in production.
var Postgres = Protocol{
	Flag: "--postgres", Reads: 0.01, Wait: 5 * time.Millisecond, Patience: 10 * time.Minute,
	Parse: postgres.ParseURL,
	Open: func(ctx context.Context, control, _ gateway.Upstream) (shadow.Protocol, error) {
		return shadowpostgres.New(ctx, control)
	},
}

// Gateway is a gateway of this program with the given rules, in front of the server at url, which is up.
func (p Protocol) Gateway(up gateway.Upstream, url string, rules []string) (g shadow.Process, err error) {
	if g.Program, err = os.Executable(); err != nil {
		return g, err
	}
	addr, err := shadow.FreeAddress()
	if err != nil {
		return g, err
	}
	up.Network, up.Address, up.TLS = "tcp", addr, nil
	g.Args = []string{"serve", "--admin", "off", "--log-level", "warn"}
	for _, r := range rules {
		g.Args = append(g.Args, "--rule", r)
	}
	g.Env, g.Address = []string{p.Variable + "=" + addr + "=" + p.upstream(url)}, up
	return g, nil
}
