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
	Upstream endpoint.Upstream // the exit of an entry, the server of an exit
	Exit     bool
	TLS      *tls.Config // for clients of an entry, or entries of an exit; nil: plain
	MaxConns int

	Setting codec.Setting // compression of sent data
	Auto    bool          // choose the setting by link and CPU instead
	Window  int           // log2 of the largest history in bytes; 0: 8 MiB
	History int64         // bytes; limit on the histories of all streams; 0: 256 MiB
	Links   int           // links that an entry connects in advance; 0: none
	Key     []byte        // that both ends share; nil: none

	HelloTimeout time.Duration // 0: 10 s
	OpenTimeout  time.Duration // limits the time until a link is used; 0: 2 min
	IdleTimeout  time.Duration // after it a history is forgotten; 0: 1 min

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
