package postgres

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// Config configures a gateway. Everything but Upstream may be left zero.
type Config struct {
	Name     string
	Upstream endpoint.Upstream // its user, if any, is the gateway's own
	TLS      *tls.Config       // for clients, which must use it; nil: plain
	MaxConns int

	// To move clients.
	UsersFile string // passwords or verifiers, in the format of PgBouncer's userlist.txt; "": none
	AuthQuery string // returns a user's verifier from pg_authid; "": endpoint.DefaultAuthQuery
	StateFile string // stores the server that clients were moved to; "": clients can't be moved
	// Resolve parses the URL of another server; nil: endpoint.ParsePostgres.
	Resolve func(url string) (endpoint.Upstream, error)

	LoginTimeout time.Duration // for clients; 0: 1 min, as PostgreSQL's default

	Stats *gateway.Stats
	Log   *slog.Logger
}

const defaultLoginTimeout = time.Minute

func (c *Config) setDefaults() {
	if c.LoginTimeout == 0 {
		c.LoginTimeout = defaultLoginTimeout
	}
	if c.Resolve == nil {
		c.Resolve = endpoint.ParsePostgres
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
