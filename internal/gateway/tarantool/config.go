package tarantool

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Dicts finds dictionaries and decides which of them new values may name.
type Dicts interface {
	envelope.Dictionaries
	// Ready reports whether values stored now may name the dictionary. It does not block.
	Ready(number uint32) bool
}

// Config configures a gateway. Everything but Upstream may be left zero.
type Config struct {
	Name        string
	Upstream    endpoint.Upstream // its credentials are those of the gateway; clients send their own
	UpstreamURL string            // server URL without credentials, told to Cinch's commands; "": not told
	TLS         *tls.Config       // for clients; nil: plain
	Policy      *policy.Policy    // nil: compresses nothing, decompresses everything
	Engine      *codec.Engine
	// Schema reads the server's schema on a connection of the gateway; nil: there is none, and nothing is
	// compressed. The method Hint of an error, if it has one, returns the hint that is logged with it.
	Schema func(context.Context) (*schema.Schema, error)
	// ReadTuple reads a tuple by the key of an index, both MessagePack, on such a connection. It returns nil if
	// there is no such tuple, or the server accepts no such key. Nil: no tuples are read, and fields that the
	// gateway's user may not see count as compressed.
	ReadTuple func(ctx context.Context, space, index uint32, key []byte) ([]byte, error)
	// Greeted is called with each greeting of the server before the client gets it, so that connections of the
	// gateway can follow clients to another server. It must not block. Nil: not called.
	Greeted  func(greeting string)
	Dicts    Dicts           // nil: no dictionaries
	Sampler  gateway.Sampler // nil: none
	MaxSeal  int             // bytes; longest value to compress; 0: envelope.DefaultMaxRaw
	MaxOpen  int             // longest value to decompress; 0: the larger of MaxSeal and envelope.DefaultMaxRaw
	MaxConns int
	// GuardLoopback refuses clients from other machines as described at gateway.LoopbackGuard.
	GuardLoopback bool
	SQL           SQLMode // SQL statements that may use spaces with rules

	// Requests and Replies limit the bytes of large frames in flight, one budget a direction so that neither
	// waits for the other; nil: no limit.
	Requests, Replies *memory.Budget
	// Stall limits how long a peer may hold bytes of a budget that others wait for, while it moves less than
	// gateway.MinPace, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace limits how long a drain waits for clients that have no request in flight but an open transaction
	// or a watch on box.shutdown.
	Grace time.Duration

	Effort *gateway.Effort // limits the effort of compression; nil: no limits
	Tracer *trace.Tracer   // nil: no request is traced

	Stats *gateway.Stats
	Log   *slog.Logger
}
