package tarantool

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	corestore "github.com/cinch-layer/cinch/internal/store"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/trace"
)

// Config is what a gateway needs. Everything but Upstream may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream // its credentials are the gateway's own; clients bring theirs
	Behind   string           // URL of the server without credentials, for Cinch's commands; "": not told
	TLS      *tls.Config      // for clients; nil: plain
	Policy   *policy.Policy   // nil: seals nothing, opens everything
	Engine   *codec.Engine
	// Schema reads the server's schema on a connection of the gateway's own; nil: there is
	// none, and nothing is sealed.
	Schema func(context.Context) (*store.Schema, error)
	// Look reads a tuple by the key of an index, both MessagePack, on such a connection; nil: there
	// is none. Without it what the gateway's user may not see is taken for sealed.
	Look     func(ctx context.Context, space, index uint32, key []byte) ([]byte, error)
	Dicts    corestore.Dicts // nil: no dictionaries
	Sampler  gateway.Sampler // nil: none
	MaxSeal  int             // bytes of the longest value that is sealed; 0: cinch.DefaultMaxRaw
	MaxOpen  int             // bytes of the longest that is opened; 0: the larger of MaxSeal and cinch.DefaultMaxRaw
	MaxConns int
	// GuardLoopback refuses clients of other machines as gateway.LoopbackGuard says.
	GuardLoopback bool
	SQL           SQLMode // what of SQL may go to spaces with rules

	// Requests and Replies bound the bytes of large frames in flight, one budget a direction
	// so that neither waits for the other; nil: no bound.
	Requests, Replies *gateway.Budget
	// Stall is how long a peer may hold bytes of a budget that others wait for and move less
	// than gateway.MinPace, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace is how long a drain waits for clients that only wait themselves.
	Grace time.Duration

	Effort *gateway.Effort // what sealing may take; nil: no limits
	Tracer *trace.Tracer   // nil: no request is traced

	Stats *gateway.Stats
	Log   *slog.Logger
}
