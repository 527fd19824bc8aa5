package postgres

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Config is what a gateway needs. Everything but Upstream may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream // its user, if there is one, is the gateway's own
	TLS      *tls.Config      // for clients, who have to use it; nil: plain
	MaxConns int

	// To move clients.
	UsersFile string // what users log in with, as PgBouncer's userlist.txt; "": none
	AuthQuery string // asks what pg_authid has of a user; "": DefaultAuthQuery
	StateFile string // where a move has led; "": clients can't be moved
	// Resolve reads the URL of another server; nil: ParseURL.
	Resolve func(url string) (gateway.Upstream, error)

	LoginTimeout time.Duration // of clients; 0: 1 min, as the server has it

	Stats *gateway.Stats
	Log   *slog.Logger
}

const defaultLoginTimeout = time.Minute

func (c *Config) setDefaults() {
	if c.LoginTimeout == 0 {
		c.LoginTimeout = defaultLoginTimeout
	}
	if c.Resolve == nil {
		c.Resolve = ParseURL
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
