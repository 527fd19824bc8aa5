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

// What a peer's frames may be wrong with, beside wire.ErrMalformed and codec.ErrCorrupt.
var (
	errOrder = fmt.Errorf("%w: a frame out of order", wire.ErrMalformed)
	errSum   = fmt.Errorf("%w: wrong checksum", codec.ErrCorrupt)
)

// ResetError reports a RESET of the peer.
type ResetError struct{ Reason wire.Reason }

func (e ResetError) Error() string { return fmt.Sprintf("reset by the peer, reason %d", e.Reason) }

// Owner is the connection that a link is for.
type Owner struct {
	Local net.Addr // of the connection on our side, for the log; nil: there is none
	Abort func()   // ends all of it, when the link turns out to be lost

	Near, Far      memory.Peer     // who is on our side, and at the other end of the link
	Sent, Received *memory.Account // for what is under way; nil: no bound
}

// Link is a connection to a peer after the hellos. It begins with Start and ends with End and Leave; one that was not
// started ends with Abort. One goroutine at a time calls Next and Append, and Free behind them; the other methods may
// be called from any.
type Link struct {
	e     *Endpoint
	conn  net.Conn
	owner Owner
	out   sender
	in    receiver

	theirs  wire.Hello
	sharing atomic.Pointer[Sharing] // nil: the owner remembers nothing of its own
	lent    int64                   // to the owner, for that; guarded by the endpoint's history

	waiting   context.Context // for memory; ends with Interrupt
	interrupt context.CancelFunc
}

// Sharing is for an owner that remembers more than the link does, which is to be forgotten when the link forgets.
type Sharing struct {
	Busy      func() bool // now is no time to forget
	Forget    func() bool // what we send is forgotten, behind what was written and before what will be; false: not now
	Forgotten func()      // the peer has done that
}

// meet takes the peer's hello.
func (l *Link) meet(theirs wire.Hello) {
	l.theirs = theirs
	l.out.init(l, theirs)
}

// busy reports whether the owner can't forget.
func (l *Link) busy() bool {
	s := l.sharing.Load()
	return s != nil && s.Busy()
}

// mayForget asks the owner, and has it forget, before our history is dropped.
func (l *Link) mayForget() bool {
	s := l.sharing.Load()
	return s == nil || s.Forget()
}

// wasForgotten tells the owner that the peer has dropped its history.
func (l *Link) wasForgotten() {
	if s := l.sharing.Load(); s != nil {
		s.Forgotten()
	}
}

// Conn is the connection below.
func (l *Link) Conn() net.Conn { return l.conn }

// Open makes the link, which may have been made in advance, a client's.
func (l *Link) Open() error {
	_, err := l.conn.Write([]byte{byte(wire.Open)})
	return err
}

// Start begins the care for the link's histories.
func (l *Link) Start(o Owner) {
	l.owner = o
	l.out.memory = heldMemory{account: o.Sent, awaits: o.Far}
	l.in.memory = heldMemory{account: o.Received, awaits: o.Far}
	if o.Received != nil {
		l.waiting, l.interrupt = context.WithCancel(context.Background())
	}
	l.out.speed = l.e.speeds.to(l.conn)
	l.e.enroll(l)
}

// Interrupt ends waiting for memory, now and from now on.
func (l *Link) Interrupt() {
	if l.interrupt != nil {
		l.interrupt()
	}
}

// Leave ends what Start began.
func (l *Link) Leave() {
	l.Interrupt()
	l.e.forget(l)
}

// Abort closes a link that no session will use.
func (l *Link) Abort() {
	_ = gateway.Abort(l.conn)
	l.Free()
}

// Collect waits for bytes of c, a connection on our side, and returns those that are there, as Send takes them. It belongs
// to one goroutine, which calls Send behind it.
func (l *Link) Collect(c net.Conn) (buf []byte, n int, err error) {
	if l.out.failed != nil {
		return nil, 0, l.out.failed
	}
	buf, n, err = gateway.ReadFirst(c, freePiece) // as few calls deep as can be: its stack lasts while the connection is idle
	if err != nil {
		return nil, 0, err
	}
	return l.out.collectMore(c, buf, n)
}

// Send sends n bytes, which are in front of buf. It owns buf.
func (l *Link) Send(buf []byte, n int) error { return l.out.piece(buf, n, false) }

// Finish says that no bytes follow.
func (l *Link) Finish() error { return l.out.finish() }

// Finished reports whether Finish has been called: from before the peer can know.
func (l *Link) Finished() bool { return l.out.finished.Load() }

// Reset says that the connection is over, and End is the end of what is sent.
func (l *Link) Reset() {
	l.out.end(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: wire.ReasonReset}))
}

// End is called when nothing is to be sent any more.
func (l *Link) End() { l.out.end(nil) }

// Append appends the bytes of a frame.
func (l *Link) Append(dst []byte, f wire.Frame) ([]byte, error) { return l.in.open(dst, f) }

// Free gives back what is kept for receiving.
func (l *Link) Free() { l.in.free() }

// abort ends the connection because of the link.
func (l *Link) abort() { l.owner.Abort() }

// LogEnd counts why a link ended too early, and logs it if it was a fault.
func (l *Link) LogEnd(err error) {
	var reset ResetError
	switch class := errorClasses.Of(err); {
	case errors.As(err, &reset):
		if reset.Reason != wire.ReasonReset { // only an exit can say that
			l.e.cfg.Stats.Error("malformed")
		}
	case class != "":
		l.e.cfg.Stats.Error(class)
		l.e.sayBadFrame(l.conn, err)
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		l.e.cfg.Stats.Error("link_lost")
		l.Debug("link lost", err)
	}
}

// Debug says why a connection was reset.
func (l *Link) Debug(why string, err error) {
	local := ""
	if l.owner.Local != nil {
		local = l.owner.Local.String()
	}
	l.e.cfg.Log.Debug("connection reset: "+why, "local", local, "peer", l.conn.RemoteAddr().String(), "err", err)
}

// errorClasses classify the faults of a peer.
var errorClasses = gateway.ErrorClasses{
	{errSum, "checksum"},
	{codec.ErrCorrupt, "corrupt"},
	{codec.ErrUnknownCodec, "corrupt"},
	{wire.ErrMalformed, "malformed"},
}
