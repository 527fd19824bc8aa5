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
	Upstream    endpoint.Upstream // with the gateway's own credentials; clients send theirs
	UpstreamURL string            // server URL without credentials, for Cinch's commands (answerGateway); "": none
	TLS         *tls.Config       // for clients; nil: plain
	Policy      *policy.Policy    // nil: compresses nothing, decompresses everything
	Engine      *codec.Engine
	// Schema reads the server's schema on a connection of the gateway; nil: the schema is not read, and only
	// arguments of functions are compressed. If an error has a method Hint, the hint is logged with it.
	Schema func(context.Context) (*schema.Schema, error)
	// ReadTuple reads a tuple by a key in an index on such a connection. Tuple and key are MessagePack. It returns nil
	// if there is no such tuple, or the server does not accept the key. Nil: no tuples are read, and where the
	// gateway's user may not see the constraints on fields, the fields count as compressed.
	ReadTuple func(ctx context.Context, space, index uint32, key []byte) ([]byte, error)
	// Greeted, if not nil, is called with each greeting of the server before the client gets it, so that the
	// gateway's own connections can follow clients to another server. It must not block.
	Greeted  func(greeting string)
	Dicts    Dicts           // nil: no dictionaries
	Sampler  gateway.Sampler // nil: none
	MaxSeal  int             // longest value to compress, in bytes; 0: envelope.DefaultMaxRaw
	MaxOpen  int             // longest value to decompress, in bytes; 0: the larger of MaxSeal and envelope.DefaultMaxRaw
	MaxConns int
	// GuardLoopback refuses clients from other machines as described at gateway.LoopbackGuard.
	GuardLoopback bool
	SQL           SQLMode // selects the SQL statements that may use spaces with rules

	// Requests and Replies limit the bytes of large frames in flight. Each direction has a budget, so that neither
	// waits for the other. Nil: no limit.
	Requests, Replies *memory.Budget
	// Stall limits how long a peer may be slower than memory.MinPace while it holds bytes of a budget that others wait
	// for, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace limits how long a drain waits for clients that have no request in flight but an open transaction
	// or a watch on box.shutdown.
	Grace time.Duration

	Effort *gateway.Effort // limits CPU time and latency of compression; nil: no limits
	Tracer *trace.Tracer   // nil: no request is traced

	Stats *gateway.Stats
	Log   *slog.Logger
}
