package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// prefaceTimeout limits how long a client may take to send the HTTP/2 preface and its settings. headerTimeout
// limits the time from the first byte of a header block, or of any frame but DATA, to its last one.
const (
	prefaceTimeout = 10 * time.Second
	headerTimeout  = 10 * time.Second
)

// ServerConfig configures a Server.
type ServerConfig struct {
	Handler    http.Handler
	MaxStreams int // concurrent requests
	Window     int // receive window of a stream in bytes, at least 65,535
	ConnWindow int // receive window of the connection in bytes
	// Memory pays for a larger window of the connection while unread bodies take up ConnWindow; nil: it does
	// not grow.
	Memory    *memory.Account
	MaxHeader int    // bytes of a header list, as HTTP/2 counts them
	MaxFrame  int    // bytes of a frame, in both directions; 0: 16 KiB
	Ahead     []byte // bytes already read from the connection

	Context     context.Context // parent of the requests' contexts; nil: the background
	IdleTimeout time.Duration   // without requests, until the connection ends; 0: no limit
	Date        bool            // add Date to responses that have none

	Faults // logs and counts handlers' panics too, except http.ErrAbortHandler
}

// Server is the server's end of a connection.
type Server struct {
	conn
	cfg    ServerConfig
	remote string
	tls    *tls.ConnectionState

	waiting  []*serverStream // calls that wait for a running handler to return
	running  int             // handlers that are running
	handlers sync.WaitGroup  // running handlers, for Serve
	drain    drain
	idling   idling
}

// NewServer returns the server end of n and queues its settings. Serve must follow.
func NewServer(n net.Conn, cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, remote: n.RemoteAddr().String(), tls: tlsState(n)}
	s.cfg.Window = max(cfg.Window, initialWindow)
	s.init(n, s, config{Faults: cfg.Faults, window: s.cfg.Window, maxHeader: cfg.MaxHeader, frame: cfg.MaxFrame, ahead: cfg.Ahead, headerTimeout: headerTimeout})
	s.memory = cfg.Memory
	s.sendSettings()
	return s
}

// Serve serves requests until the connection has ended and all handlers have returned, since their memory is
// accounted to the client. It returns the protocol violation by the client that ended the connection, or nil.
func (s *Server) Serve() error {
	defer s.handlers.Wait()
	defer gateway.CatchPanic(s.Log, s.Stats, s.abort)
	_ = s.net.SetReadDeadline(time.Now().Add(prefaceTimeout))
	preface := make([]byte, len(xhttp2.ClientPreface))
	if _, err := io.ReadFull(s.in, preface); err != nil || string(preface) != xhttp2.ClientPreface {
		s.close()
		<-s.done
		s.in.free()
		return protocolError("no connection preface")
	}
	return s.read()
}

// sendSettings queues the server's settings (RFC 9113, section 3.4).
func (s *Server) sendSettings() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.fr.WriteSettings(
		xhttp2.Setting{ID: xhttp2.SettingMaxFrameSize, Val: uint32(s.frameBytes)},
		xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: uint32(s.cfg.MaxStreams)},
		xhttp2.Setting{ID: xhttp2.SettingMaxHeaderListSize, Val: uint32(s.cfg.MaxHeader)},
		xhttp2.Setting{ID: xhttp2.SettingHeaderTableSize, Val: tableBytes},
		xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: uint32(s.cfg.Window)},
	)
	s.unackedSettings++
	s.widen(s.cfg.ConnWindow)
	s.startIdleTimer()
	s.flush()
}

// Close ends the connection and all its requests.
func (s *Server) Close() { s.close() }

func (s *Server) failed() {
	if s.idling.timer != nil {
		s.idling.timer.Stop()
	}
}

// requestError returns the error for the connection's requests. It is never io.EOF, which a reader would take
// for the end of the body.
func (s *Server) requestError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// headers opens a stream, or completes one with trailers.
func (s *Server) headers(id uint32, end bool, b *block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if st := s.streams[id]; st != nil {
		return s.trailers(st, end, b)
	}
	if id%2 == 0 {
		return protocolError("even number of a stream opened by the client")
	}
	isNew := id >= s.next
	s.next = max(s.next, id+1)
	switch {
	case id > s.lastStream:
		return nil
	case !isNew:
		return s.closedStreamError(id)
	}

	if len(s.streams) >= s.cfg.MaxStreams {
		return streamError(id, xhttp2.ErrCodeRefusedStream, "too many streams") // section 5.1.2
	}
	if b.bad != "" || b.connField != "" {
		return malformed(id, b.bad+b.connField)
	}
	call := serverStreams.Get().(*serverStream)
	call.server = s
	call.scope.secrets = &call.secrets
	call.secrets.add(b.fields, false)
	if !b.tooLong {
		if err := call.parseHeaders(id, end, b); err != nil {
			return err
		}
	}
	if s.cfg.Context != nil { // the parent keeps a reference to the scope until the stream ends
		call.scope.Begin(s.cfg.Context)
	}
	st := &call.stream
	s.add(st, id)
	st.headersReceived, st.remoteEnd, st.user = true, end, call
	st.trailers, st.trailersAnnounced = &call.request.Trailer, true
	if call.r == nil {
		call.refuse(http.StatusRequestHeaderFieldsTooLarge)
		return nil
	}
	if r := call.r; r.ContentLength > 0 || len(r.Header["Content-Length"]) > 0 {
		st.length = r.ContentLength
	}
	if call.w.call, call.r.Body = call, http.NoBody; !end {
		call.r.Body = call
		if httpguts.HeaderValuesContainsToken(call.r.Header["Expect"], "100-continue") {
			call.expectsContinue.Store(true)
			delete(call.r.Header, "Expect")
		}
	}
	s.newCalls = append(s.newCalls, call)
	return nil
}

// closedStreamError returns the error for headers on a stream that has ended, or nil (RFC 9113, sections 5.1
// and 5.1.1).
func (s *Server) closedStreamError(id uint32) error {
	switch s.recent.kindOf(id) {
	case resetLocally:
		return nil
	case endedNormally:
		return violation{xhttp2.ErrCodeStreamClosed, "HEADERS on a closed stream"}
	}
	return protocolError("stream number lower than an earlier one")
}

func (s *Server) trailers(st *stream, end bool, b *block) error {
	switch {
	case st.remoteEnd:
		return streamError(st.id, xhttp2.ErrCodeStreamClosed, "HEADERS after the end of the stream")
	case b.bad != "" || b.connField != "":
		return malformed(st.id, "trailers: "+b.bad+b.connField)
	}
	fields, err := b.trailer(st.id, end, &headerMemory{})
	if err != nil {
		return err
	}
	st.user.(*serverStream).secrets.add(b.fields, false)
	return st.endWith(fields)
}

// start starts the handler of a call, or queues the call if too many run. Handlers of streams that were reset
// count until they return, so that a client can't run more handlers by resetting streams (CVE-2023-44487).
func (s *Server) start(call *serverStream) {
	switch {
	case call.gone && call.outErr != nil: // it was reset
		call.drop(errEnded)
	case s.running < s.cfg.MaxStreams:
		s.running++
		s.handlers.Add(1)
		workers.run(call)
	case len(s.waiting) < s.cfg.MaxStreams:
		s.waiting = append(s.waiting, call)
	default:
		_ = s.fr.WriteGoAway(s.lastAccepted(), xhttp2.ErrCodeEnhanceYourCalm, []byte("too many streams were reset"))
		s.fail(enhanceYourCalm("too many streams were reset"))
	}
}

// onHandlerDone counts a handler that has returned, and starts the next ones.
func (s *Server) onHandlerDone() {
	s.running--
	for len(s.waiting) > 0 && s.running < s.cfg.MaxStreams {
		next := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		s.start(next)
	}
}

func (s *Server) streamRemoved(st *stream) {
	if call, ok := st.user.(*serverStream); ok {
		call.scope.End()
	}
	if len(s.streams) > 0 {
		return
	}
	if s.idling.timer != nil {
		s.idling.since = time.Now()
	}
	if s.drain.finalSent {
		s.closeGracefully()
	}
}

// drainTimeout limits how long a drain waits for the answer to drainPing before it sends the final GOAWAY.
const drainTimeout = time.Second

// drainPing is sent behind the first GOAWAY of a drain: its answer shows that the client has read that
// GOAWAY.
var drainPing = [8]byte{'c', 'i', 'n', 'c', 'h', 'e', 'n', 'd'}

// drain holds the state of a graceful shutdown.
type drain struct {
	begun     bool
	finalSent bool // the final GOAWAY is queued: no further stream is accepted
	timer     *time.Timer
}

// Drain ends the connection after its last request, and returns at once. It sends a first GOAWAY and still
// accepts requests that the client sends before it reads that. Then a second GOAWAY names the last accepted
// request (RFC 9113, section 6.8).
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginDrain()
	s.flush()
}

// beginDrain queues the first GOAWAY. s.mu must be held.
func (s *Server) beginDrain() {
	if s.drain.begun || s.err != nil {
		return
	}
	s.drain.begun = true
	_ = s.fr.WriteGoAway(maxStreamID, xhttp2.ErrCodeNo, nil)
	_ = s.fr.WritePing(false, drainPing)
	s.drain.timer = s.after(drainTimeout, s.sendFinalGoAway)
}

func (s *Server) onPingAck(data [8]byte) {
	if data == drainPing && s.drain.begun {
		s.sendFinalGoAway()
	}
}

// sendFinalGoAway queues the final GOAWAY, which names the last accepted request. s.mu must be held.
func (s *Server) sendFinalGoAway() {
	if s.drain.finalSent || s.err != nil {
		return
	}
	s.drain.timer.Stop()
	s.drain.finalSent, s.lastStream = true, s.lastAccepted()
	_ = s.fr.WriteGoAway(s.lastStream, xhttp2.ErrCodeNo, nil)
	if len(s.streams) == 0 {
		s.closeGracefully()
	}
}

// idling ends a connection that has had no requests for IdleTimeout, whatever other frames arrive. Guarded by
// the connection's mu.
type idling struct {
	since time.Time // end of the last request, or begin of the connection
	timer *time.Timer
}

// startIdleTimer starts the idle timer. s.mu must be held.
func (s *Server) startIdleTimer() {
	if s.cfg.IdleTimeout > 0 {
		s.idling = idling{time.Now(), s.after(s.cfg.IdleTimeout, s.checkIdle)}
	}
}

// checkIdle begins a drain of an idle connection, or restarts the timer. s.mu must be held.
func (s *Server) checkIdle() {
	wait := s.cfg.IdleTimeout
	if len(s.streams) == 0 {
		wait -= time.Since(s.idling.since)
	}
	switch {
	case s.err != nil:
	case wait > 0:
		s.idling.timer.Reset(wait)
	default:
		s.beginDrain()
	}
}
