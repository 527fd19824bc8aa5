package tunnel

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// session is one client connection: its local side (of an entry the client, of an exit the
// server) and its link. Where the connection is carried for another gateway there is no local
// side: see carrier.go.
type session struct {
	g     *Gateway
	local net.Conn
	link  net.Conn
	out   sender
	in    receiver

	sentFin, gotFin atomic.Bool // sentFin from before the write on
	localEnded      atomic.Bool // we close the local side for writing, or have done so
	outBroken       atomic.Bool // pumpOut can't write to the link
	inBroken        atomic.Bool // pumpIn can't write to the local side
	resetSent       atomic.Bool
	resetting       sync.Once
	closing         sync.Once
}

// pieceBytes is the most that is read from the local side at a time.
const pieceBytes = wire.MaxRaw

// goodbye is how long a peer has to take a last frame.
const goodbye = 5 * time.Second

// Run pumps until both directions have ended, or the whole connection has.
func (s *session) Run() {
	defer s.g.forget(s)
	defer s.Close()
	done := make(chan struct{})
	go s.runIn(done)
	defer s.out.end(nil)
	s.pumpOut()
	<-done
	s.awaitPeer()
}

// awaitPeer waits, after a reset, until the peer closes the link or its time is over.
func (s *session) awaitPeer() {
	if s.resetSent.Load() {
		_, _ = io.Copy(io.Discard, s.link)
	}
}

func (s *session) runIn(done chan<- struct{}) {
	defer close(done)
	defer s.in.free()
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, s.abort)
	s.pumpIn()
}

// Drain does nothing: the connection ends when its peers end it, or is reset when Shutdown's
// time is over.
func (s *session) Drain() {}

// Close cuts both connections. Before both directions have ended that is a reset.
func (s *session) Close() error {
	s.closing.Do(func() {
		if s.local != nil {
			_ = gateway.Abort(s.local)
		}
		_ = gateway.Abort(s.link)
	})
	return nil
}

func (s *session) abort() { _ = s.Close() }

// pumpOut carries pieces from the local side to the link, until its end.
func (s *session) pumpOut() {
	for {
		if s.inBroken.Load() {
			s.hurry()
		}
		buf, n, err := readAll(s.local)
		switch {
		case errors.Is(err, io.EOF) && !s.wasReset():
			s.sendFin()
			if s.inBroken.Load() {
				s.reset()
			}
			return
		case err != nil:
			s.debug("reset by its own side", err)
			s.reset()
			return
		}
		if err := s.out.piece(buf, n); err != nil {
			s.linkBroke(err)
			return
		}
	}
}

// linkBroke is called when a write to the link failed. What the peer said before may still lie here: a server
// that has enough says so and closes. pumpIn passes it on, and ends when it finds the link's end, or when the client does not
// take it, who may wait for us to read.
func (s *session) linkBroke(err error) {
	s.debug("link lost", err)
	s.outBroken.Store(true)
	if s.inBroken.Load() {
		s.abort()
		return
	}
	soon := time.Now().Add(goodbye)
	_ = s.link.SetReadDeadline(soon)
	_ = s.local.SetWriteDeadline(soon)
}

// localBroke is called when a write to the local side failed. For the same reason it is left to
// pumpOut, while that runs, to find the local side's end and to pass the reset on.
func (s *session) localBroke(err error) {
	s.debug("reset by its own side", err)
	s.inBroken.Store(true)
	switch {
	case s.outBroken.Load():
		s.abort()
	case s.sentFin.Load():
		s.reset()
	default:
		s.hurry()
	}
}

// hurry bounds the time that the next piece of a local side which is gone may take.
func (s *session) hurry() {
	soon := time.Now().Add(goodbye)
	_ = s.local.SetReadDeadline(soon)
	_ = s.link.SetWriteDeadline(soon)
}

// wasReset tells an end from a reset that a write to the local side got to know first. The
// state is read before the flag: if that isn't set, the state was not ours yet. An end that we
// have said in TLS leaves the state alone.
func (s *session) wasReset() bool {
	reset := gateway.WasReset(s.local)
	return reset && (!s.localEnded.Load() || !isPlain(s.local))
}

// readAll waits for bytes and returns all that are there, up to pieceBytes.
func readAll(c net.Conn) (buf []byte, n int, err error) {
	buf, n, err = gateway.ReadFirst(c, pieceBytes)
	if t, ok := c.(*tls.Conn); ok && err == nil {
		n += gateway.ReadReady(t, buf[n:])
	}
	return buf, n, err
}

func isPlain(c net.Conn) bool {
	_, ok := c.(*gateway.Conn)
	return ok
}

// sendFin passes an end on. The side that sees both ends first closes the link for writing:
// everything was said.
func (s *session) sendFin() {
	if err := s.out.finish(); err != nil {
		s.linkBroke(err)
		return
	}
	s.endLink()
}

// endLink is called after either end. When both have come, nothing follows but notes, until
// the peer has passed everything on to its local side. That takes as long as it takes: closing
// before would answer a late note with a reset, and what is still under way would be lost.
func (s *session) endLink() {
	if !s.sentFin.Load() || !s.gotFin.Load() {
		return
	}
	s.out.end(nil)
	gateway.ResetWhenCut(s.local, false)
	_ = gateway.CloseWrite(s.link)
}

// reset passes a reset of the local side on. It does not close the link: with something unread that would be a
// reset of the link, which overtakes what is under way. The peer closes it when it has read ours, and Run waits
// for that.
func (s *session) reset() {
	s.resetting.Do(func() {
		s.resetSent.Store(true)
		_ = s.link.SetWriteDeadline(time.Now().Add(goodbye))
		_ = gateway.Abort(s.local)
		s.out.end(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: wire.ReasonReset}))
		_ = gateway.CloseWrite(s.link)
		_ = s.link.SetReadDeadline(time.Now().Add(goodbye))
	})
}

// pumpIn carries frames from the link to the local side, until the link's end.
func (s *session) pumpIn() {
	out := pending{to: s.local}
	defer out.free()
	for {
		f, err := s.in.next(out.flush)
		if err == nil {
			err = s.handle(&out, f)
		}
		if err == nil {
			continue
		}
		s.endIn(err)
		return
	}
}

// handle acts on a frame.
func (s *session) handle(out *pending, f wire.Frame) (err error) {
	switch f.Kind {
	case wire.Block, wire.Piece, wire.Begin:
		if s.in.over {
			return errOrder
		}
		if err := out.room(f.RawLen); err != nil {
			return err
		}
		out.b, err = s.in.open(out.b, f)
		return err
	case wire.Fin:
		if s.in.over {
			return errOrder
		}
		s.in.over = true
		return s.receiveFin(out)
	case wire.Reset:
		_ = out.flush() // what was sent before it
		return resetError{f.Reason}
	case wire.Grant:
		s.out.take(f)
	case wire.Drop:
		s.in.drop()
	case wire.Speed:
		s.out.speed.told(f.Speed)
	default:
		return errOrder
	}
	return nil
}

func (s *session) receiveFin(out *pending) error {
	if err := out.flush(); err != nil {
		return err
	}
	s.localEnded.Store(true)
	if err := gateway.CloseWrite(s.local); err != nil {
		return localError{err}
	}
	s.gotFin.Store(true)
	s.endLink()
	return nil
}

// localError is one of the local side.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// endIn ends what is left to end after the pump from the link has stopped.
func (s *session) endIn(err error) {
	if s.sentFin.Load() && s.gotFin.Load() || s.resetSent.Load() { // whatever it was, all had been said
		return
	}
	var local localError
	if errors.As(err, &local) {
		s.localBroke(err)
		return
	}
	s.logEnd(err)
	s.abort()
}

// logEnd counts why a link ended too early, and logs it where that is somebody's mistake.
func (s *session) logEnd(err error) {
	var reset resetError
	switch class := errorClass(err); {
	case errors.As(err, &reset):
		if reset.reason == wire.ReasonReset {
			return
		}
		if s.g.cfg.Exit || s.local == nil { // only an exit can say that
			s.g.cfg.Stats.Error("malformed")
			return
		}
		s.g.cfg.Stats.Error("refused")
		if n, say := s.g.refused.happens(time.Now()); say {
			s.g.cfg.Log.Warn("the exit does not reach its upstream, client disconnected", "exit", s.g.cfg.Upstream.String(), "others", n)
		}
	case class != "":
		s.g.cfg.Stats.Error(class)
		if n, say := s.g.bad.happens(time.Now()); say {
			s.g.cfg.Log.Warn("the peer sent what is no valid frame, disconnected", "peer", s.link.RemoteAddr().String(), "others", n, "err", err)
		}
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		s.g.cfg.Stats.Error("link_lost")
		s.debug("link lost", err)
	}
}

// debug says why a connection was reset.
func (s *session) debug(why string, err error) {
	local := ""
	if s.local != nil {
		local = s.local.RemoteAddr().String()
	}
	s.g.cfg.Log.Debug("connection reset: "+why, "local", local, "peer", s.link.RemoteAddr().String(), "err", err)
}

// pending gathers what goes to the local side.
type pending struct {
	to net.Conn
	b  []byte
}

// room makes sure that n more bytes fit.
func (p *pending) room(n int) error {
	if len(p.b) > 0 && len(p.b)+n > outBytes {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if p.b == nil {
		p.b = gateway.GetBuffer(max(n, outBytes))
	}
	return nil
}

// flush writes what has been gathered, and keeps no buffer.
func (p *pending) flush() error {
	if p.b == nil {
		return nil
	}
	var err error
	if len(p.b) > 0 {
		_, err = p.to.Write(p.b)
	}
	p.free()
	if err != nil {
		return localError{err}
	}
	return nil
}

func (p *pending) free() {
	gateway.PutBuffer(p.b)
	p.b = nil
}
