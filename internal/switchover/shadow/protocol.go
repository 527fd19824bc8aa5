package shadow

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/plans"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// Errors of a Reader. Any other error means that the connection's bytes were not understood.
var (
	// ErrUnmirrored ends the mirroring of a connection that uses something that can't be mirrored, such as a
	// subscription. It is wrapped with the reason.
	ErrUnmirrored = errors.New("not mirrored")
	// ErrTooLarge reports an operation above the limit.
	ErrTooLarge = errors.New("outstanding requests and replies are too large to mirror")
)

// Protocol adapts the engine to a database protocol.
type Protocol interface {
	// Reader returns a Reader for a new connection.
	Reader() Reader
	// Dial connects to a target, as the target's own user.
	Dial(ctx context.Context, t *Target) (Conn, error)
}

// Reader turns the bytes of one client's connection into operations. It does not retain the slices it is
// given. Its methods are called by one goroutine.
type Reader interface {
	// Request takes bytes that the client sent.
	Request(b []byte, at time.Time) error
	// Reply takes bytes that the server sent, and returns the operations that these complete.
	Reply(b []byte, at time.Time) ([]*Operation, error)
	// Held returns the number of bytes that the Reader buffers of incomplete messages.
	Held() int64
}

// Unanswered is a Reader of a protocol with requests that servers don't answer.
type Unanswered interface {
	// Unanswered returns those operations of the last Request.
	Unanswered() []*Operation
}

// Midway is a Reader that can tell whether its connection is in the middle of something, such as a transaction, that
// can't be mirrored in part. A connection that is older than the run is mirrored once that has ended.
type Midway interface {
	Midway() bool
}

// Ender is a Reader that may have operations left when its connection has ended in production. Those of a
// connection that is given up, or was never mirrored, are not sent.
type Ender interface {
	End() []*Operation
}

// Excuser is a Protocol that can find out whether answers differ for an unavoidable reason, such as a value
// that expired at one target a moment before the other.
type Excuser interface {
	Excuse(ctx context.Context, op *Operation, control, test *Target) bool
}

// Timekeeper is a Protocol whose servers would expire data by their own clocks. It removes expired data on
// both targets at the same place among the operations.
type Timekeeper interface {
	// Due returns some of the operations that remove data which production has expired by now. The caller
	// repeats the call until there are none. now is the time of the next piece. The operations are sent on
	// the mirror's own connection.
	Due(now time.Time) []*Operation
}

// Noter is a Protocol that detects differences between servers that exist by nature.
type Noter interface {
	// Notes returns lines for the report. It may be called at any time.
	Notes() []string
}

// Sizer is a Protocol that can measure how much space a target's data takes.
type Sizer interface {
	// Size measures a target. Fields that the target does not report stay zero.
	Size(ctx context.Context, t *Target) (usage.Size, error)
}

// Explainer is a Protocol that can ask a target for the plan of an operation, without executing it.
type Explainer interface {
	// Explain returns the plan for an Operation's Example.
	Explain(ctx context.Context, t *Target, example any) plans.Plan
}

// Opener is a Protocol whose connections begin with something that is not passed through, such as the
// negotiation of TLS.
type Opener interface {
	// Open serves a client until its bytes may be passed through, within TLS if the client asks for that and
	// there is a configuration. It returns the connection to use from then on, and the first bytes for
	// production.
	Open(client net.Conn, config *tls.Config) (net.Conn, []byte, error)
	// Reach connects to production for a client, with the configuration that Open got.
	Reach(ctx context.Context, production endpoint.Upstream, client net.Conn, config *tls.Config) (net.Conn, error)
}

// Looker is a Protocol that can find out what a target is doing with an unanswered operation.
type Looker interface {
	// Look reports on the operation sent last on a connection. own is the connection of the operation that
	// waits for it; nil: it has none yet.
	Look(ctx context.Context, on, own Conn) Progress
}

// Progress of an operation.
type Progress uint8

// Results of Look.
const (
	Working  Progress = iota // on the operation
	Seeing                   // working, and its snapshot is taken
	Stopping                 // waiting for an operation of another connection
	Yielding                 // waiting for the connection own
	Silent                   // the target does not answer this question
)

// Conn is a connection to a target. Send and Close may be called at the same time.
type Conn interface {
	// Send sends operations, in one write where the protocol allows that, and calls answered once for each,
	// in their order. After an error, or past the deadline, the connection must not be used.
	Send(ops []*Operation, deadline time.Time, answered func(i int, a Answer)) error
	Close() error
}
