package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

const (
	defaultHandshakeTimeout = 10 * time.Second

	// The pause after a failed accept is minAcceptPause at first, and doubles up to maxAcceptPause.
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Session serves one client's connection.
//
// Run blocks until both sides are done and closes both connections. Drain is called at most once, from
// another goroutine, and must not wait: it asks Run to finish the requests in flight and to return. Drain may
// come before Run has begun.
//
// A session that holds more than the client's connection should implement io.Closer too. Close is called,
// from any goroutine and perhaps while Run is still busy, when Run panicked or when Shutdown's context has
// ended.
type Session interface {
	Run()
	Drain()
}

// Authenticator is implemented by sessions that know whether their client has logged in.
// Authenticated is called from any goroutine and must not wait.
type Authenticator interface {
	Authenticated() bool
}

// Server accepts connections and runs one Session for each. Its fields are set
// before the first Serve and not changed after it.
type Server struct {
	Name string // for logs and errors

	// NewSession makes the session of an accepted connection, whose concrete type is *Conn, or *tls.Conn
	// after a completed handshake. It is called in the session's goroutine and may block. If it returns nil, the
	// connection is closed once the client has had time to read what NewSession sent.
	NewSession func(net.Conn) Session

	TLS              *tls.Config   // nil: plain
	HandshakeTimeout time.Duration // for TLS; 0: 10 s
	MaxConns         int           // limit of simultaneous connections, shared by address (see ConnLimit); 0: no limit

	// HandshakeFailed is called when a TLS handshake fails; nil: the failure is logged at debug level.
	HandshakeFailed func(net.Conn, error)

	// Refusal is an error in the client's protocol. It is sent, if possible without waiting, on a connection
	// without TLS before that is closed because a limit on connections is reached.
	Refusal []byte

	Log   *slog.Logger // nil: nothing is logged
	Stats *Stats       // nil: nothing is counted

	limit      ConnLimit // for connections that have sent their PROXY header or need none
	proxyLimit ConnLimit // for connections whose PROXY header is awaited

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	active    map[*activeConn]struct{}
	closing   chan struct{} // closed when Shutdown begins
	done      chan struct{} // closed after closing, when no listener and no connection is left
	closed    bool          // Shutdown has begun
	ended     sync.Once     // closes done
}

// activeConn is an accepted connection from admission until its goroutine ends.
type activeConn struct {
	server  *Server
	slot    *ConnSlot // belongs to the goroutine that serves it
	conn    *Conn
	proxied *proxiedConn // reads the PROXY header; nil: there is none
	session Session      // nil until NewSession has returned; guarded by Server.mu
	drained bool         // Drain was called or is about to be; guarded by Server.mu
}

// Serve accepts connections on l until Shutdown is called, and then returns nil. If the process is out of
// file descriptors or memory it waits and tries again. It returns any other error of Accept; the sessions
// continue. It always closes l. Several listeners may be served at a time.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.track(l) {
		return nil
	}
	defer s.untrack(l)
	defer s.Stats.trackListener(l.Addr())()
	var pause time.Duration
	for {
		c, err := l.Accept()
		if err == nil {
			pause = 0
			s.admit(c)
			continue
		}
		if s.isClosing() {
			return nil
		}
		if !retryAccept(err) {
			return fmt.Errorf("gateway %s: accept: %w", s.Name, err)
		}
		pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
		if short := endpoint.DescriptorShortage(nil, 0, err); short != nil {
			err = short
		}
		s.Stats.Error("accept")
		s.log().Warn("accept failed, trying again", "err", err, "pause", pause)
		s.sleep(pause)
	}
}

// retryAccept reports whether an error of Accept is temporary: a shortage, or a peer that left before it was
// accepted. After other errors the listener is broken.
func retryAccept(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, syscall.EINTR,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// sleep pauses for d, or until Shutdown begins.
func (s *Server) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.closing:
	}
}

// maxProxyPending limits the connections whose PROXY header is awaited, which MaxConns does not count.
const maxProxyPending = 256

// admit starts the goroutine of c, or closes c if there are too many connections.
func (s *Server) admit(c net.Conn) {
	a := &activeConn{server: s}
	limit := &s.limit
	if p, ok := c.(*proxiedConn); ok {
		a.proxied, c, limit = p, p.Conn, &s.proxyLimit
	}
	a.conn = newConn(c, s.Stats.side(sideClient))
	short := endpoint.DescriptorShortage(c, endpoint.ReservedDescriptors, nil)
	a.slot = limit.Admit(BudgetAddress(a.conn), a, short != nil)
	if a.slot == nil {
		s.refuse(a.conn, short)
		_ = c.Close()
		return
	}
	s.begin(a)
	go s.serve(a)
}

// begin counts an admitted connection. If Shutdown has begun since the connection was accepted, it waits for this one
// too.
func (s *Server) begin(a *activeConn) {
	s.mu.Lock()
	s.active[a] = struct{}{}
	s.mu.Unlock()
	s.Stats.connOpened()
}

// ServeStream serves a stream within a connection of this server like the connection of a client, and returns when its
// session has ended. newSession is used in place of NewSession.
func (s *Server) ServeStream(stream net.Conn, newSession func(net.Conn) Session) {
	a := &activeConn{server: s, conn: NewConn(stream)}
	if a.slot = s.limit.Admit(BudgetAddress(a.conn), a, false); a.slot == nil {
		s.refuse(a.conn, nil)
		_ = stream.Close()
		return
	}
	s.begin(a)
	defer s.remove(a)
	defer a.conn.Close()
	defer CatchPanic(s.log(), s.Stats, func() { s.abort(a) })
	if session := s.beginSession(a, a.conn, newSession); session != nil {
		session.Run()
	}
}

// Stage implements LimitedConn.
func (a *activeConn) Stage() ConnStage {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	if a.session == nil {
		return StageHandshake
	}
	if l, ok := a.session.(Authenticator); ok && !l.Authenticated() {
		return StageUnauthenticated
	}
	return StageServed
}

// LastActive implements LimitedConn.
func (a *activeConn) LastActive() time.Time { return a.conn.LastActive() }

// Displace implements LimitedConn.
func (a *activeConn) Displace() {
	s := a.server
	s.Stats.Error("displaced")
	s.log().Warn("client disconnected to make room for another address: max_connections or the limit of file descriptors is reached, and this address has the most connections",
		"client", remote(a.conn), "max_connections", s.MaxConns)
	s.abort(a)
}

// refuse counts, logs and reports to the client that there are too many connections or, if short is not nil,
// too few file descriptors.
func (s *Server) refuse(c *Conn, short error) {
	s.Stats.connRejected()
	if short != nil {
		s.Stats.Error("descriptors")
		s.log().Warn("connection refused", "client", remote(c), "err", short)
	} else {
		s.log().Warn("client refused, max_connections is reached", "client", remote(c), "max_connections", s.MaxConns)
	}
	if s.TLS != nil || len(s.Refusal) == 0 {
		return
	}
	// The send buffer of a new connection usually takes this at once; the deadline is for those where it does not.
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = c.Write(s.Refusal)
}

// serve is the goroutine of one connection.
func (s *Server) serve(a *activeConn) {
	defer s.remove(a)
	defer a.conn.Close()
	defer CatchPanic(s.log(), s.Stats, func() { s.abort(a) })
	if !s.admitProxied(a) {
		return
	}
	c, err := s.handshake(a.conn)
	if err != nil {
		if s.isClosing() {
			return
		}
		s.Stats.Error("tls_handshake")
		if s.HandshakeFailed != nil {
			s.HandshakeFailed(a.conn, err)
			return
		}
		s.log().Debug("tls handshake failed", "remote", remote(a.conn), "err", err)
		return
	}
	if session := s.beginSession(a, c, s.NewSession); session != nil {
		session.Run()
		return
	}
	linger(c)
}

// Limits for a client that got no session and continues sending.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 64 << 10
)

// linger gives a client without a session time to read the error that it was sent. Closing at once would
// reset the connection while the client is sending, and it would report the reset instead of the error.
func linger(c net.Conn) {
	if CloseWrite(c) != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}

// admitProxied reads the PROXY header, if one is expected, and admits the client that it names. It reports whether
// to go on.
func (s *Server) admitProxied(a *activeConn) bool {
	if a.proxied == nil {
		return true
	}
	err := a.proxied.readHeader(a.conn)
	if err == nil {
		a.slot.Leave()
		if a.slot = s.limit.Admit(BudgetAddress(a.conn), a, false); a.slot == nil {
			s.refuse(a.conn, nil)
			return false
		}
	}
	if err != nil && !s.isClosing() && !errors.Is(err, io.EOF) { // EOF: a balancer probes whether the port is open
		s.Stats.Error("proxy_header")
		s.log().Debug("connection without a valid PROXY header closed", "remote", remote(a.conn), "err", err)
	}
	return err == nil
}

func (s *Server) handshake(c *Conn) (net.Conn, error) {
	if s.TLS == nil {
		return c, nil
	}
	timeout := s.HandshakeTimeout
	if timeout <= 0 {
		timeout = defaultHandshakeTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	tc := tls.Server(c, s.TLS)
	return tc, tc.HandshakeContext(ctx)
}

// beginSession makes a's session and registers it for Shutdown. If Shutdown has begun meanwhile, the session is
// drained before it runs.
func (s *Server) beginSession(a *activeConn, c net.Conn, newSession func(net.Conn) Session) Session {
	session := newSession(c)
	if session == nil {
		return nil
	}
	s.mu.Lock()
	a.session = session
	drain := s.closed && !a.drained
	a.drained = a.drained || drain
	s.mu.Unlock()
	if drain {
		session.Drain()
	}
	return session
}

// abort closes a's connections. It sends no TLS close_notify, which could block on a peer that doesn't read.
func (s *Server) abort(a *activeConn) {
	s.mu.Lock()
	session := a.session
	s.mu.Unlock()
	_ = a.conn.Close()
	if closer, ok := session.(io.Closer); ok {
		_ = closer.Close()
	}
}

func (s *Server) remove(a *activeConn) {
	a.slot.Leave()
	s.Stats.connClosed() // first, so that no connection is counted as open when Shutdown returns
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, a)
	s.closeDone()
}

// Connections returns the number of clients' connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}

// closeDone closes done after Shutdown when no listener and no connection is left. s.mu must be held.
func (s *Server) closeDone() {
	if s.closed && len(s.active) == 0 && len(s.listeners) == 0 {
		s.ended.Do(func() { close(s.done) })
	}
}

// Shutdown closes the listeners, drains all sessions and waits for them to end. If ctx ends first, it closes
// all connections and returns ctx.Err() without waiting further. It may be called again to wait longer.
func (s *Server) Shutdown(ctx context.Context) error {
	go s.drainAll(s.close())
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.abortAll()
		return ctx.Err()
	}
}

// BeginPatience limits how long a client that connects just before Shutdown may take for its handshakes and its first
// request.
const BeginPatience = 2 * time.Second

// close stops accepting and returns the connections whose sessions have to be drained. Connections without a session
// are in a handshake, with nothing in flight: beginSession drains their sessions, and after BeginPatience closeUnbegun
// closes the connections that still have none.
func (s *Server) close() []*activeConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	if !s.closed {
		s.closed = true
		close(s.closing)
		s.closeDone()
		time.AfterFunc(BeginPatience, s.closeUnbegun)
	}
	for l := range s.listeners {
		_ = l.Close()
	}
	var drain []*activeConn
	for a := range s.active {
		if a.session != nil && !a.drained {
			a.drained = true
			drain = append(drain, a)
		}
	}
	return drain
}

// closeUnbegun closes the connections that have no session.
func (s *Server) closeUnbegun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.active {
		if a.session == nil {
			_ = a.conn.Close()
		}
	}
}

func (s *Server) drainAll(conns []*activeConn) {
	defer CatchPanic(s.log(), s.Stats, nil) // drain recovers panics of each session itself
	for _, a := range conns {
		s.drain(a)
	}
}

func (s *Server) drain(a *activeConn) {
	defer CatchPanic(s.log(), s.Stats, func() { s.abort(a) })
	a.session.Drain() // the session was set, under s.mu, before close chose a
}

func (s *Server) abortAll() {
	s.mu.Lock()
	conns := make([]*activeConn, 0, len(s.active))
	for a := range s.active {
		conns = append(conns, a)
	}
	s.mu.Unlock()
	for _, a := range conns {
		s.abort(a)
	}
}

// init makes the zero Server usable. s.mu must be held.
func (s *Server) init() {
	if s.active != nil {
		return
	}
	s.limit.Max, s.proxyLimit.Max = s.MaxConns, maxProxyPending
	s.listeners = make(map[net.Listener]struct{})
	s.active = make(map[*activeConn]struct{})
	s.closing = make(chan struct{})
	s.done = make(chan struct{})
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	if !s.closed {
		s.listeners[l] = struct{}{}
	}
	return !s.closed
}

func (s *Server) untrack(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.closeDone()
	s.mu.Unlock()
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

func remote(c net.Conn) string {
	if a := c.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}
