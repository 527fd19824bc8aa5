package tunnel

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// Config is what a gateway needs. Everything but Upstream and Engine may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream // of an entry the exit, of an exit the server
	Exit     bool
	TLS      *tls.Config // for clients, of an exit for entries; nil: plain
	MaxConns int

	Setting codec.Setting // of what we send
	Auto    bool          // choose it from link and CPU instead
	Window  int           // log2 of the largest history's bytes; 0: 8 MiB
	History int64         // bound in bytes on what all streams remember; 0: 256 MiB
	Links   int           // that an entry makes in advance; 0: none

	HelloTimeout time.Duration // 0: 10 s
	OpenTimeout  time.Duration // for a link to be used; 0: 2 min
	IdleTimeout  time.Duration // after which a history is forgotten; 0: 1 min

	Engine            *codec.Engine
	Requests, Replies *gateway.Budget // of the bytes under way
	Stats             *gateway.Stats
	Log               *slog.Logger
}

const defaultOpenTimeout = 2 * time.Minute

func (c *Config) setDefaults() {
	if c.OpenTimeout == 0 {
		c.OpenTimeout = defaultOpenTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
