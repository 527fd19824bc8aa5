package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// Faults of a peer's frames, in addition to wire.ErrMalformed and codec.ErrCorrupt.
var (
	errOrder = fmt.Errorf("%w: a frame out of order", wire.ErrMalformed)
	errSum   = fmt.Errorf("%w: wrong checksum", codec.ErrCorrupt)
)

// ResetError is returned when the peer has sent RESET.
type ResetError struct{ Reason wire.Reason }

func (e ResetError) Error() string { return fmt.Sprintf("reset by the peer, reason %d", e.Reason) }

// Owner describes the session that uses a link.
type Owner struct {
	Client string   // whose share of the memory for histories the link takes, usually its address; "": that of all such links
	Local  net.Addr // of the local connection, for the log; nil: none
	Abort  func()   // ends the session, because the link has failed

	Near, Far      memory.Peer     // the peer of the local connection, and that of the link
	Sent, Received *memory.Account // of bytes in flight; nil: no limit
}

// Link is a connection to another gateway after the hellos. The owner calls Start before it uses the link, and End,
// Leave and Free when it has finished; a link that was not started ends with Abort. Only one goroutine at a time may
// call Next and Append, and Free after them. The other methods may be called from any goroutine.
type Link struct {
	e     *Endpoint
	conn  net.Conn
	owner Owner
	out   sender
	in    receiver

	theirs  wire.Hello
	sharing atomic.Pointer[Sharing] // nil: the owner keeps no state that depends on the histories
	lent    int64                   // bytes that the owner holds for such state; guarded by history.mu
	client  *clientHistory          // set by Start

	waiting   context.Context // of waiting for memory; ends with Interrupt
	interrupt context.CancelFunc
}

// Sharing is implemented by an owner with state of its own that must be dropped together with the link's histories.
type Sharing struct {
	Busy      func() bool // reports whether the state of sent bytes can't be dropped now
	Forget    func() bool // drops that state, between two writes; false: not now
	Forgotten func()      // drops the state of received bytes, because the peer has dropped its own
}

// meet records the peer's hello.
func (l *Link) meet(theirs wire.Hello) {
	l.theirs = theirs
	l.out.init(l, theirs)
}

// busy reports whether the owner can't drop its state now.
func (l *Link) busy() bool {
	s := l.sharing.Load()
	return s != nil && s.Busy()
}

// mayForget drops the owner's state of sent bytes, before the history is dropped. It returns false if that must not be
// now.
func (l *Link) mayForget() bool {
	s := l.sharing.Load()
	return s == nil || s.Forget()
}

// wasForgotten drops the owner's state of received bytes.
func (l *Link) wasForgotten() {
	if s := l.sharing.Load(); s != nil {
		s.Forgotten()
	}
}

// Conn returns the connection below the link.
func (l *Link) Conn() net.Conn { return l.conn }

// Open sends OPEN: a link that was made in advance now has a client.
func (l *Link) Open() error {
	_, err := l.conn.Write([]byte{byte(wire.Open)})
	return err
}

// Start sets the owner. From then on histories are dropped when they are idle.
func (l *Link) Start(o Owner) {
	l.owner, l.client = o, l.e.history.client(o.Client)
	l.out.memory = heldMemory{account: o.Sent, awaits: o.Far}
	l.in.memory = heldMemory{account: o.Received, awaits: o.Far}
	if o.Received != nil {
		l.waiting, l.interrupt = context.WithCancel(context.Background())
	}
	l.out.speed = l.e.speeds.to(l.conn)
	l.e.enroll(l)
}

// Interrupt makes Next return if it waits for memory, now or later.
func (l *Link) Interrupt() {
	if l.interrupt != nil {
		l.interrupt()
	}
}

// Leave undoes Start.
func (l *Link) Leave() {
	l.Interrupt()
	l.e.forget(l)
	l.client.leave()
}

// Abort closes a link that has no owner.
func (l *Link) Abort() {
	_ = gateway.Abort(l.conn)
	l.Free()
}

// Collect waits until bytes of c, the local connection, can be read, and returns those that are there, as arguments for
// Send. The same goroutine calls Collect and Send.
func (l *Link) Collect(c net.Conn) (buf []byte, n int, err error) {
	if l.out.failed != nil {
		return nil, 0, l.out.failed
	}
	buf, n, err = gateway.ReadFirst(c, freePiece) // not deep in calls: the stack of an idle connection stays as large as it was
	if err != nil {
		return nil, 0, err
	}
	return l.out.collectMore(c, buf, n)
}

// Send sends the first n bytes of buf, and takes ownership of buf.
func (l *Link) Send(buf []byte, n int) error { return l.out.piece(buf, n, false) }

// Finish sends FIN: no more bytes follow.
func (l *Link) Finish() error { return l.out.finish() }

// Finished reports whether FIN is being sent, or was.
func (l *Link) Finished() bool { return l.out.finished.Load() }

// Reset sends RESET. Nothing is sent after it.
func (l *Link) Reset() {
	l.out.end(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: wire.ReasonReset}))
}

// End frees the sending history. Nothing is sent after it.
func (l *Link) End() { l.out.end(nil) }

// Append appends the decompressed bytes of a frame to dst.
func (l *Link) Append(dst []byte, f wire.Frame) ([]byte, error) { return l.in.open(dst, f) }

// Free frees the receiving history and the buffer.
func (l *Link) Free() { l.in.free() }

// abort ends the owner's session.
func (l *Link) abort() { l.owner.Abort() }

// LogEnd counts the error that has ended a link too early, and logs it if the peer broke the protocol.
func (l *Link) LogEnd(err error) {
	var reset ResetError
	switch class := errorClasses.Of(err); {
	case errors.As(err, &reset):
		if reset.Reason != wire.ReasonReset { // only a tunnel's exit may send those
			l.e.cfg.Stats.Error("malformed")
		}
	case class != "":
		l.e.cfg.Stats.Error(class)
		l.e.Disconnected("the peer sent an invalid frame, disconnected", l.conn, err)
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		l.e.cfg.Stats.Error("link_lost")
		l.Debug("link lost", err)
	}
}

// Debug logs, at level debug, why a connection is reset.
func (l *Link) Debug(why string, err error) {
	local := ""
	if l.owner.Local != nil {
		local = l.owner.Local.String()
	}
	l.e.cfg.Log.Debug("connection reset: "+why, "local", local, "peer", l.conn.RemoteAddr().String(), "err", err)
}

// errorClasses maps faults of a peer to classes of cinch_errors_total.
var errorClasses = gateway.ErrorClasses{
	{errSum, "checksum"},
	{codec.ErrCorrupt, "corrupt"},
	{codec.ErrUnknownCodec, "corrupt"},
	{wire.ErrMalformed, "malformed"},
}
