package gateway

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// DefaultStall is how long a peer may move less than the minimum while others wait for the memory that
// its message holds.
const DefaultStall = 4 * time.Second

// Stream is the way from one connection of a session to the other. It is the Flow of protocols
// whose connections carry one thing at a time.
type Stream struct {
	From, To net.Conn
	Client   net.Conn      // one of the two
	Limit    time.Duration // the patience with it
	Stats    *Stats
	Log      *slog.Logger
}

// Progress is what one peer has sent and the other has taken.
func (s *Stream) Progress() int64 {
	received, _ := moved(s.From)
	_, taken := moved(s.To)
	return received + taken
}

// Patience is s.Limit.
func (s *Stream) Patience() time.Duration { return s.Limit }

// Cut closes both connections.
func (s *Stream) Cut(v Verdict) {
	defer CatchPanic(s.Log, s.Stats, nil)
	LogCut(s.Log, s.Stats, s.Client.RemoteAddr(), v)
	_ = Abort(s.From)
	_ = Abort(s.To)
}

// LogCut counts and logs that a peer was cut off, whose message holds memory that others wait for.
func LogCut(log *slog.Logger, stats *Stats, client net.Addr, v Verdict) {
	stats.Error("stalled")
	why := "it moves too little while others wait for the memory that its message holds"
	if v.Turn {
		why = "its message takes too long while others wait for their turn"
	}
	log.Warn(v.Peer.String()+" is too slow, disconnected", "client", client.String(), "why", why, "held_bytes", v.Held,
		"moved_bytes", v.Moved, "in", v.In.Round(time.Millisecond))
}

// moved is how many bytes have come from the other end of c, and how many it has taken.
func moved(c net.Conn) (received, taken int64) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	wrapped, ok := c.(*Conn)
	if !ok {
		return 0, 0
	}
	if received, taken, ok = movedByKernel(wrapped.Conn); ok && received+taken > 0 { // there are kernels that don't count
		return received, taken
	}
	return wrapped.received.Load(), wrapped.sent.Load()
}
