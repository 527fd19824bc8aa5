package tunnel

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// session is one client connection: its local side (the client at an entry, the server at an exit) and its
// link.
type session struct {
	g     *Gateway
	local net.Conn
	link  *link.Link
	conn  net.Conn // connection of the link

	sent, received *memory.Account // nil: no limit

	gotFin     atomic.Bool
	localEnded atomic.Bool // the session closes or has closed the local side for writing
	outBroken  atomic.Bool // pumpOut can't write to the link
	inBroken   atomic.Bool // pumpIn can't write to the local side
	resetSent  atomic.Bool
	resetting  sync.Once
	closing    sync.Once
}

func newSession(g *Gateway, local net.Conn, l *link.Link) *session {
	s := &session{g: g, local: local, link: l, conn: l.Conn()}
	o := link.Owner{Local: local.RemoteAddr(), Abort: s.abort, Near: memory.FromClient, Far: memory.FromUpstream}
	out, in, client := g.requests, g.replies, local
	if g.cfg.Exit {
		o.Near, o.Far = o.Far, o.Near
		out, in, client = in, out, s.conn
	}
	s.sent, s.received = s.account(out, local, s.conn, client), s.account(in, s.conn, local, client)
	o.Sent, o.Received = s.sent, s.received
	o.Client = memory.AddressOf(gateway.BudgetAddress(client))
	l.Start(o)
	return s
}

// account returns the account for the bytes in flight in one direction.
func (s *session) account(of *memory.Share, from, to, client net.Conn) *memory.Account {
	return of.Account(gateway.BudgetAddress(client), &gateway.Stream{
		From: from, To: to, Client: client, Limit: gateway.DefaultStall, Stats: s.g.cfg.Stats, Log: s.g.cfg.Log,
	})
}

// lastFrameTimeout limits how long a session that ends early waits for each of its peers.
const lastFrameTimeout = 5 * time.Second

// Run carries data until both directions have ended or the session is aborted.
func (s *session) Run() {
	defer s.sent.Close()
	defer s.received.Close()
	defer s.link.Leave()
	defer s.Close()
	done := make(chan struct{})
	go s.runIn(done)
	defer s.link.End()
	s.pumpOut()
	<-done
	s.awaitPeer()
}

// awaitPeer waits, after a reset, until the peer closes the link or the read deadline passes.
func (s *session) awaitPeer() {
	if s.resetSent.Load() {
		_, _ = io.Copy(io.Discard, s.conn)
	}
}

func (s *session) runIn(done chan<- struct{}) {
	defer close(done)
	defer s.link.Free()
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, s.abort)
	s.pumpIn()
}

// Drain does nothing: the connection ends when its peers end it, or is reset when the context of Shutdown
// ends.
func (s *session) Drain() {}

// Close aborts both connections. Before both directions have ended that is a reset.
func (s *session) Close() error {
	s.closing.Do(func() {
		_ = gateway.Abort(s.local)
		_ = gateway.Abort(s.conn)
		s.link.Interrupt()
	})
	return nil
}

func (s *session) abort() { _ = s.Close() }

// pumpOut carries data from the local side to the link, until the local side ends.
func (s *session) pumpOut() {
	for {
		if s.inBroken.Load() {
			s.setDeadlines()
		}
		buf, n, err := s.link.Collect(s.local)
		switch {
		case errors.Is(err, io.EOF) && !s.wasReset():
			s.sendFin()
			if s.inBroken.Load() {
				s.reset()
			}
			return
		case err != nil:
			s.link.Debug("reset by its own side", err)
			s.reset()
			return
		}
		if err := s.link.Send(buf, n); err != nil {
			s.onLinkError(err)
			return
		}
	}
}

// onLinkError is called when a write to the link failed. Data that the peer sent before may still be unread: a
// server that refuses further data may send an error message and close. pumpIn passes that data on. It ends at
// the link's end, or when the local side does not read the data in time: it may be waiting for this side to
// read first.
func (s *session) onLinkError(err error) {
	s.link.Debug("link lost", err)
	s.outBroken.Store(true)
	if s.inBroken.Load() {
		s.abort()
		return
	}
	soon := time.Now().Add(lastFrameTimeout)
	_ = s.conn.SetReadDeadline(soon)
	_ = s.local.SetWriteDeadline(soon)
}

// onLocalError is called when a write to the local side failed. As in onLinkError, data from there may still be
// unread. So pumpOut, if it still runs, carries that data, and passes the reset on when it reads the end.
func (s *session) onLocalError(err error) {
	s.link.Debug("reset by its own side", err)
	s.inBroken.Store(true)
	switch {
	case s.outBroken.Load():
		s.abort()
	case s.link.Finished():
		s.reset()
	default:
		s.setDeadlines()
	}
}

// setDeadlines limits the time for reading from a local side that can no longer be written to, and for writing to
// the link.
func (s *session) setDeadlines() {
	soon := time.Now().Add(lastFrameTimeout)
	_ = s.local.SetReadDeadline(soon)
	_ = s.conn.SetWriteDeadline(soon)
}

// wasReset reports whether an EOF from the local side is really a reset that an earlier write has detected. It
// reads the state of the connection before localEnded: if that isn't set, this side had not closed the
// connection for writing when the state was read. Closing TLS for writing does not change the state.
func (s *session) wasReset() bool {
	reset := gateway.WasReset(s.local)
	return reset && (!s.localEnded.Load() || !isPlain(s.local))
}

func isPlain(c net.Conn) bool {
	_, ok := c.(*gateway.Conn)
	return ok
}

// sendFin passes on that the local side has ended.
func (s *session) sendFin() {
	if err := s.link.Finish(); err != nil {
		s.onLinkError(err)
		return
	}
	s.endLink()
}

// endLink is called after the end of either direction. After both it closes the link for writing, since no data
// follows. The peer may still send GRANT and SPEED frames until it has passed everything on to its local side.
// There is no time limit for that: closing the link earlier would answer such a frame with a reset, and data in
// flight would be lost.
func (s *session) endLink() {
	if !s.link.Finished() || !s.gotFin.Load() {
		return
	}
	s.link.End()
	gateway.SetResetOnClose(s.local, false)
	_ = gateway.CloseWrite(s.conn)
}

// reset passes a reset of the local side on. It does not close the link: with unread data that would reset
// the link, and the reset would overtake data in flight. The peer closes the link when it has read the Reset
// frame, and Run waits for that.
func (s *session) reset() {
	s.resetting.Do(func() {
		s.resetSent.Store(true)
		_ = s.conn.SetWriteDeadline(time.Now().Add(lastFrameTimeout))
		_ = gateway.Abort(s.local)
		s.link.Reset()
		_ = gateway.CloseWrite(s.conn)
		s.link.Interrupt()
		_ = s.conn.SetReadDeadline(time.Now().Add(lastFrameTimeout))
	})
}

// pumpIn carries frames from the link to the local side, until the link's end.
func (s *session) pumpIn() {
	out := s.link.Gather(s.local)
	defer out.Free()
	for {
		f, err := s.link.Next(out.Flush)
		if err == nil {
			err = s.handle(out, f)
		}
		if err != nil {
			s.endIn(err)
			return
		}
	}
}

func (s *session) handle(out *link.Gathered, f wire.Frame) error {
	if f.Kind == wire.Fin {
		return s.receiveFin(out)
	}
	return out.Add(f)
}

func (s *session) receiveFin(out *link.Gathered) error {
	if err := out.Flush(); err != nil {
		return err
	}
	s.localEnded.Store(true)
	if err := gateway.CloseWrite(s.local); err != nil {
		return link.LocalError{Err: err}
	}
	s.gotFin.Store(true)
	s.endLink()
	return nil
}

// endIn ends the rest of the session after pumpIn has stopped with err.
func (s *session) endIn(err error) {
	if s.link.Finished() && s.gotFin.Load() || s.resetSent.Load() { // nothing was left to carry, so err does not matter
		return
	}
	var local link.LocalError
	if errors.As(err, &local) {
		s.onLocalError(err)
		return
	}
	s.logEnd(err)
	s.abort()
}

// logEnd counts why a link ended too early. At an entry it warns if the exit does not reach its upstream. Link.LogEnd
// handles all other cases.
func (s *session) logEnd(err error) {
	var reset link.ResetError
	if !errors.As(err, &reset) || reset.Reason == wire.ReasonReset || s.g.cfg.Exit {
		s.link.LogEnd(err)
		return
	}
	s.g.cfg.Stats.Error("refused")
	s.g.cfg.Log.Warn("the exit does not reach its upstream, client disconnected", "exit", s.g.cfg.Upstream.String())
}
