package tunnel

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// Config configures a gateway. Everything but Upstream and Engine may be left zero.
type Config struct {
	Name     string
	Upstream endpoint.Upstream // for an entry the exit, for an exit the server
	Exit     bool
	TLS      *tls.Config // for clients of an entry, or entries of an exit; nil: plain
	MaxConns int

	Setting codec.Setting // compression of sent data
	Auto    bool          // choose the setting by link and CPU instead
	Window  int           // log2 of the largest history in bytes; 0: 8 MiB
	History int64         // bytes; limit on the histories of all streams; 0: 256 MiB
	Links   int           // links that an entry connects in advance; 0: none
	Key     []byte        // the same at both ends; nil: none

	HelloTimeout time.Duration // 0: 10 s
	OpenTimeout  time.Duration // limits how long an exit keeps an unused link; 0: 2 min
	IdleTimeout  time.Duration // idle time after which a history is dropped; 0: 1 min

	Engine            *codec.Engine
	Requests, Replies *memory.Budget // limit the bytes in flight
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
