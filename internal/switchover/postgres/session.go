package postgres

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// backend is a session's connection to a server.
type backend struct {
	conn net.Conn
	at   endpoint.Upstream
	key  string // the cancellation key: the body of its BackendKeyData
	rest []byte // bytes that the login has read ahead
	lost bool   // the server closed it while the session was held; guarded by the session's mu

	statuses statuses // only of a connection that replaces another one
}

// session is one client. Two goroutines copy its requests and the server's replies; mu guards what both use.
type session struct {
	g       *Gateway
	raw     net.Conn // as accepted, without TLS
	startup []byte
	params  map[string]string // the startup parameters
	key     string            // for cancellations by the client; guarded by g.mu

	number      uint64
	credentials credentials // revealed by the login
	pending     atomic.Pointer[internalQuery]
	// Nothing more is forwarded from the client; what it sends is read and discarded.
	discardRequests atomic.Bool
	ended           chan struct{} // closed by Close
	done            chan struct{} // closed at the end of Run

	mu              sync.Mutex
	changed         sync.Cond // broadcast when a field below changes
	client          net.Conn  // with TLS if the client uses it
	backend         *backend  // nil: not connected yet
	tracker         tracker
	statuses        statuses  // as the client has them, or will after pending
	pendingStatuses []byte    // for the client, before the server's next bytes
	authPending     bool      // the client has not answered an authentication request
	ready           bool      // logged in
	newUntil        time.Time // until then a drain does not end the session, because it is new
	draining        bool
	expired         bool // a drain no longer waits for it
	// The server's query_canceled for an expired session has come: everything from then on is dropped.
	discardReplies bool
	closed         bool
	farewell       []byte // last message for the client

	held       bool           // no transaction may begin
	waitsSince time.Time      // when the client began to wait for the end of the hold; zero: it does not wait
	longest    time.Duration  // longest wait in this hold
	state      *sessionState  // session state; nil: not known
	custom     customSettings // settings with names that the client made up
	moveError  string         // why the last move failed
	unnamed    []byte         // the last Parse of the unnamed statement; empty: none
}

func (g *Gateway) newSession(c net.Conn) gateway.Session {
	s := &session{
		g: g, raw: c, client: c, number: g.numbers.Add(1), ended: make(chan struct{}), done: make(chan struct{}),
		tracker: tracker{status: idle}, newUntil: time.Now().Add(gateway.BeginPatience),
	}
	s.changed.L = &s.mu
	return s
}

// Run serves the connection from its first packet to its end.
func (s *session) Run() {
	defer close(s.done)
	defer s.g.forget(s)
	defer s.Close()
	readAhead, err := s.begin()
	if err != nil {
		s.refuse(err)
		return
	}
	done := make(chan struct{})
	go s.carryReplies(done)
	s.carryRequests(readAhead)
	<-done
}

// refuse tells the client why the session failed, unless the server has done so.
func (s *session) refuse(err error) {
	s.mu.Lock()
	say := s.farewell
	s.mu.Unlock()
	switch {
	case say != nil: // the session was ended
	case errors.Is(err, errEnded), errors.Is(err, errRefused):
	case errors.Is(err, errPlain), errors.Is(err, errUnknownLogin):
		say = fatal(codeLogin, err.Error())
	case errors.Is(err, endpoint.ErrUnreachable):
		say = fatal(codeUnreachable, "the gateway can't reach the server")
	case errorClasses.Of(err) != "":
		gateway.LogEnd(s.g.cfg.Log, s.g.cfg.Stats, s.raw, memory.FromClient, errorClasses.Of(err), err)
		say = fatal(codeProtocol, "the gateway supports only version 3 of PostgreSQL's protocol")
	}
	if say != nil {
		_ = s.client.SetWriteDeadline(time.Now().Add(farewellTime))
		_, _ = s.client.Write(say)
	}
}

// farewellTime limits the time for a last message.
const farewellTime = 5 * time.Second

// maxReadBytes limits the buffered part of a message that is parsed.
const maxReadBytes = 8 << 10

var (
	requestTypes = [256]bool{pg.Query: true, pg.Parse: true, pg.Bind: true}
	replyTypes   = [256]bool{pg.ReadyForQuery: true, pg.ErrorResponse: true, pg.ParameterStatus: true}
)

// carryRequests forwards the client's messages to its server.
func (s *session) carryRequests(b []byte) {
	in := source{conn: s.client}
	defer in.free()
	cut := pg.Cutter{Read: &requestTypes, Most: maxReadBytes}
	n, err := s.forwardRequest(&cut, b)
	for err == nil {
		in.keep(b[n:])
		if b, err = in.more(); err == nil {
			n, err = s.forwardRequest(&cut, b)
		}
	}
	s.requestsEnded(err)
}

// forwardRequest forwards the complete part of b and returns its length.
func (s *session) forwardRequest(cut *pg.Cutter, b []byte) (n int, err error) {
	sent := 0
	for {
		p, ok, err := cut.Next(b[n:])
		if err != nil || !ok {
			return n, errors.Join(err, s.writeToServer(b[sent:n]))
		}
		if p.First && !s.admit(p, false) {
			if err := s.writeToServer(b[sent:n]); err != nil {
				return n, err
			}
			if sent = n; !s.admit(p, true) {
				return n, errEnded
			}
		}
		n += len(p.Raw)
		if p.First && p.Type == pg.Terminate {
			return n, errors.Join(s.writeToServer(b[sent:n]), io.EOF)
		}
	}
}

// admit records a client's message and reports whether it may be forwarded. If the session is held and the
// message would begin a transaction, or might, admit waits if wait is true, and otherwise returns false. It
// also returns false if the session ends.
func (s *session) admit(p pg.Piece, wait bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mustWait(p.Type) {
		if !wait {
			return false
		}
		s.awaitTurn(p.Type)
	}
	if s.closed || s.expired || s.farewell != nil {
		return false
	}
	if s.state != nil && beginsUnit(p.Type) {
		s.state = nil
	}
	s.tracker.request(p.Type)
	s.record(p)
	return true
}

// mustWait reports whether a message has to wait because it would begin a transaction in a session that is held.
// While a reply of the server is outstanding, it is unknown whether a transaction is open: every message that may
// begin one waits. An idle session may have no server: every message but Terminate waits.
func (s *session) mustWait(kind byte) bool {
	t := &s.tracker
	switch {
	case !s.held || t.lost || t.open:
		return false
	case t.unanswered():
		return beginsUnit(kind)
	}
	return t.status == idle && kind != pg.Terminate
}

func (s *session) awaitTurn(kind byte) {
	s.waitsSince = time.Now()
	for s.mustWait(kind) && !s.closed && s.farewell == nil {
		s.changed.Wait()
	}
	s.longest = max(s.longest, time.Since(s.waitsSince))
	s.waitsSince = time.Time{}
}

// record stores what can't be queried from the server later.
func (s *session) record(p pg.Piece) {
	switch p.Type {
	case pg.Query:
		s.unnamed = s.unnamed[:0] // the server forgets it too
		s.custom.read(p.Body)
	case pg.Parse:
		name, text, _ := bytes.Cut(p.Body, []byte{0})
		if len(name) == 0 {
			if s.unnamed = s.unnamed[:0]; p.Last {
				s.unnamed = append(s.unnamed, p.Raw...)
			}
		}
		s.custom.read(text)
	}
}

// upstreamError is a failed write to the server.
type upstreamError struct{ error }

func (e upstreamError) Unwrap() error { return e.error }

func (s *session) writeToServer(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.mu.Lock()
	to := s.backend.conn
	s.mu.Unlock()
	if _, err := to.Write(b); err != nil {
		return upstreamError{err}
	}
	return nil
}

// requestsEnded is called when nothing more comes from the client. The server may still be replying.
func (s *session) requestsEnded(err error) {
	var refused upstreamError
	switch class := errorClasses.Of(err); {
	case class != "":
		gateway.LogEnd(s.g.cfg.Log, s.g.cfg.Stats, s.raw, memory.FromClient, class, err)
		s.discardRequests.Store(true)
		s.end(fatal(codeProtocol, "the gateway can't parse the client's message"))
		_, _ = io.Copy(io.Discard, s.client)
	case errors.Is(err, errEnded): // the other goroutine sends the last message
	case errors.As(err, &refused) && s.busy(): // the server's earlier replies are still to be read
		s.discardRequests.Store(true)
		_ = s.server().SetReadDeadline(time.Now().Add(farewellTime))
		_, _ = io.Copy(io.Discard, s.client)
	case errors.Is(err, io.EOF) && s.busy():
		_ = gateway.CloseWrite(s.server())
	default:
		_ = s.Close()
	}
}

func (s *session) server() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backend.conn
}

func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.busy()
}

// carryReplies forwards the server's messages to the client, and those of each server that replaces it.
func (s *session) carryReplies(done chan<- struct{}) {
	defer close(done)
	defer s.repliesEnded()
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, nil)
	between := true
	for b := s.nextBackend(nil); b != nil; b = s.nextBackend(b) {
		between = s.forwardReplies(b)
	}
	s.sendFarewell(between)
}

// nextBackend returns the server to read from after last has ended, or nil at the end of the session. A session that
// is held and idle needs no server: it waits for the next one or for its end.
func (s *session) nextBackend(last *backend) *backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed || s.farewell != nil:
			return nil
		case s.backend != last:
			return s.backend
		case !s.held || s.tracker.busy():
			return nil
		}
		last.lost = true
		s.changed.Wait()
	}
}

// forwardReplies forwards the server's messages until its connection ends. It reports whether the client is between two
// messages then.
func (s *session) forwardReplies(b *backend) (between bool) {
	cut := pg.Cutter{Read: &replyTypes, Most: maxReadBytes}
	in := source{conn: b.conn}
	defer in.free()
	data := b.rest
	b.rest = nil
	n, err := s.forwardReply(&cut, data)
	for err == nil {
		in.keep(data[n:])
		if data, err = in.more(); err == nil {
			n, err = s.forwardReply(&cut, data)
		}
	}
	if class := errorClasses.Of(err); class != "" {
		gateway.LogEnd(s.g.cfg.Log, s.g.cfg.Stats, s.raw, memory.FromUpstream, class, err)
	}
	if q := s.pending.Swap(nil); q != nil {
		q.end(errLost)
	}
	return cut.Between()
}

// forwardReply forwards the complete messages in b, except those for the gateway, and returns their length.
func (s *session) forwardReply(cut *pg.Cutter, b []byte) (n int, err error) {
	passed := 0
	for {
		p, ok, err := cut.Next(b[n:])
		if err != nil || !ok {
			return n, errors.Join(err, s.writeToClient(b[passed:n]), s.endIfDrained())
		}
		forGateway := s.recordReply(p)
		if forGateway {
			if err := s.writeToClient(b[passed:n]); err != nil {
				return n, err
			}
			passed = n + len(p.Raw)
		}
		n += len(p.Raw)
	}
}

// writeToClient writes to the client. A write error ends the session.
func (s *session) writeToClient(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.mu.Lock()
	pending := s.pendingStatuses
	s.pendingStatuses = nil
	s.mu.Unlock()
	if len(pending) > 0 {
		if _, err := s.client.Write(pending); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	_, err := s.client.Write(b)
	if err != nil {
		_ = s.Close()
	}
	return err
}

// recordReply records a message from the server. It returns true if the message is not for the client: responses to the
// gateway's queries, the error of a server that shuts down while the session is held, and everything after a
// cancellation by the gateway.
func (s *session) recordReply(p pg.Piece) (forGateway bool) {
	if q := s.pending.Load(); q != nil && p.Type != pg.ParameterStatus && p.Type != pg.NotificationResponse {
		q.add(p)
		if p.Type == pg.ReadyForQuery {
			s.pending.Store(nil)
			q.end(nil)
		}
		return true
	}
	if !p.First || !replyTypes[p.Type] && p.Type != pg.CopyInResponse && p.Type != pg.CopyBothResponse {
		return s.discardReplies
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p.Type {
	case pg.ParameterStatus:
		s.statuses.set(p.Body)
		return s.discardReplies
	case pg.ErrorResponse:
		if s.held && !s.tracker.busy() {
			return true
		}
		s.discardReplies = s.discardReplies || s.expired && isCancelled(p.Body)
	}
	s.tracker.reply(p.Type, p.Body)
	if p.Type == pg.ReadyForQuery {
		if s.tracker.status == idle {
			s.g.counts.transactions.Add(1)
		}
		if s.held {
			s.changed.Broadcast()
		}
	}
	return s.discardReplies
}

// switchTo replaces the connection of a session that is held and idle.
func (s *session) switchTo(b *backend) {
	s.mu.Lock()
	old := s.backend
	if s.closed {
		old = b
	} else {
		s.pendingStatuses = s.statuses.changes(s.pendingStatuses, b.statuses)
		s.backend, s.statuses = b, b.statuses
		s.changed.Broadcast()
	}
	s.mu.Unlock()
	old.terminate()
}

// A drain ends each session when it is idle. A session that is still busy shortly before connections are cut
// gets the error of a server that shuts down, 57P01. Clients then repeat their transaction, so it must not be
// committed, too. If the server waits for the client, closing the connection ends the transaction. If the server
// executes a statement, it does not notice the closed connection. So the statement is cancelled, and the client
// gets 57P01 in place of query_canceled.

// sendFarewell writes the last message to the client, if it is between two messages.
func (s *session) sendFarewell(between bool) {
	s.mu.Lock()
	say := s.farewell
	s.mu.Unlock()
	if len(say) > 0 && between {
		_ = s.client.SetWriteDeadline(time.Now().Add(farewellTime))
		_, _ = s.client.Write(say)
	}
}

// repliesEnded ends the session when nothing more comes from the server. A client that is still sending gets time to
// read its last message: closing a connection with unread bytes resets it, and the client may lose the
// message. Run closes both connections then.
func (s *session) repliesEnded() {
	if s.discardRequests.Load() && s.endWriting() == nil {
		return
	}
	_ = s.Close()
}

// endWriting ends the direction to the client, and limits the time for the other direction.
func (s *session) endWriting() error {
	s.mu.Lock()
	if s.farewell == nil {
		s.farewell = []byte{} // the session is over
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	_ = s.client.SetDeadline(time.Now().Add(farewellTime))
	return gateway.CloseWrite(s.client)
}

// end ends the session with a last message for the client, unless one is set already.
func (s *session) end(farewell []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.farewell == nil {
		s.farewell = farewell
	}
	s.changed.Broadcast()
	_ = s.client.SetWriteDeadline(time.Now().Add(farewellTime))
	if !s.ready {
		_ = s.client.SetReadDeadline(time.Now()) // its login may wait for the client
	}
	if s.backend != nil {
		_ = gateway.Abort(s.backend.conn) // wakes the reading goroutine
	}
}

// Close closes both connections.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.ended)
	s.changed.Broadcast()
	_ = gateway.Abort(s.client)
	if s.backend != nil {
		_ = gateway.Abort(s.backend.conn)
	}
	return nil
}
