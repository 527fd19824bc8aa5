package gateway

import (
	"log/slog"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// DefaultStall is the default limit on the time for which a peer may be slower than [memory.MinPace] while others
// wait for the memory that its message holds.
const DefaultStall = 4 * time.Second

// Stream is one direction of a session, from one connection to the other. It implements [memory.Flow] for protocols
// whose connections carry one message at a time.
type Stream struct {
	From, To net.Conn
	Client   net.Conn      // From or To
	Limit    time.Duration // returned by Patience
	Stats    *Stats
	Log      *slog.Logger
}

// Progress returns the bytes received from one peer plus the bytes that the other has acknowledged.
func (s *Stream) Progress() int64 {
	received, _ := transferred(s.From)
	_, taken := transferred(s.To)
	return received + taken
}

// Patience returns s.Limit.
func (s *Stream) Patience() time.Duration { return s.Limit }

// Cut closes both connections.
func (s *Stream) Cut(v memory.StallReason) {
	defer CatchPanic(s.Log, s.Stats, nil)
	LogCut(s.Log, s.Stats, s.Client.RemoteAddr(), v)
	_ = Abort(s.From)
	_ = Abort(s.To)
}

// transferred returns how many bytes have come from the other end of c, and how many that end has acknowledged.
func transferred(c net.Conn) (received, taken int64) {
	wrapped, ok := belowTLS(c).(*Conn)
	if !ok {
		return 0, 0
	}
	if received, taken, ok = transferredByKernel(wrapped.Conn); ok && received+taken > 0 { // some kernels don't count
		return received, taken
	}
	return wrapped.received.Load(), wrapped.sent.Load()
}
