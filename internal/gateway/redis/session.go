package redis

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/mux"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// session is one client and its upstream connection. It reads requests and passes each to the part that its
// table row names; common requests it handles itself.
type session struct {
	*gateway.PumpedSession
	g         *Gateway
	failure   error
	requested bool // a request arrived since the last read error

	req request // the current one

	sealedArgs []sealedArg // of the current request; kept for the next one

	reader   requestReader
	upstream upstreamWriter
	rewriter valueRewriter
	decoded  decodeBuffer
	user     user
	stored   *storedCommands // nil until first needed
	control  control
	large    large

	replyPump replyPump
}

func newSession(g *Gateway, client, upstream net.Conn, dialed time.Time) *session {
	s := &session{g: g}
	s.PumpedSession = gateway.NewPumpedSession(gateway.PumpedSessionConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Grace: g.cfg.Grace, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.upstream.init(s.PumpedSession, &s.replyPump, &g.authProbe, g.cfg.Stats)
	s.replyPump.init(s.PumpedSession, &s.upstream.queue, &s.upstream.recentKeys, &s.upstream.state, g.codec, g.cfg.view)
	s.reader.init(&s.upstream, g.table)
	s.rewriter.codec, s.rewriter.state, s.upstream.state.dialed = g.codec, &s.upstream.state, dialed
	s.rewriter.trace = newTracing(&g.cfg, upstream)
	s.replyPump.decoder.trace = s.rewriter.trace
	s.decoded.codec, s.decoded.upstream, s.decoded.stall = g.codec, &s.upstream, g.cfg.Stall
	s.user.sideConn.init(g.dialer, &s.upstream, &g.commands, &g.scripts)
	s.OnClose = s.user.sideConn.close
	s.control.init(g, &s.upstream, &s.user, s)
	if up, ok := upstream.(*gateway.Conn); ok {
		if conn, ok := up.Conn.(*mux.Conn); ok {
			s.upstream.sharing = &sharing{conn: conn}
			s.replyPump.shared = s.upstream.sharing
			conn.SetOwner(mux.Owner{Budget: s.Replies, OnWait: s.upstream.keepReading, Client: gateway.BudgetAddress(client)})
		}
	}
	s.large = large{reader: &s.reader, upstream: &s.upstream, rewriter: &s.rewriter, decoded: &s.decoded, handler: s}
	return s
}

// storedCommands returns the handler of commands that run on stored values. It creates it on first use, since many
// clients never need one.
func (s *session) storedCommands() *storedCommands {
	if s.stored == nil {
		s.stored = newStoredCommands(&s.upstream, &s.user, &s.decoded, inCluster(s.g.cfg.view))
	}
	return s.stored
}

// Run runs both pumps until both sides are done.
func (s *session) Run() {
	defer s.rewriter.trace.close()
	s.PumpedSession.Run(s.carryRequests, s.carryReplies)
}

// carryRequests runs the request pump and then closes the upstream connection for writing at once, so that the server
// drops a blocked command, as it does for a directly connected client.
func (s *session) carryRequests() {
	s.pumpRequests()
	s.CloseUpstreamWrite()
}

func (s *session) carryReplies() {
	defer s.upstream.queue.close()
	s.replyPump.run()
	if s.g.cfg.Dicts != nil && !s.Ended() { // the server closed the connection: it may have restarted without dictionaries
		s.g.cfg.Dicts.Lost() // before queue.close ends the request pump
	}
}

// pumpRequests reads requests until the client ends its input or an error occurs.
func (s *session) pumpRequests() {
	defer s.reader.in.Free()
	defer s.upstream.Flush() // before Free: lent bytes are in the reader's buffer
	defer s.upstream.tx.end()
	for s.failure == nil {
		if err := s.next(); err != nil && !s.shouldContinue(err) {
			return
		}
	}
}

// next handles one request, or reads more bytes. Most requests have the usual form and are complete in the
// buffer; parse handles the others. In every case next takes the policy snapshot by which the request's
// values are compressed.
func (s *session) next() error {
	in := s.reader.in
	buf := in.Buffered()
	if len(buf) == 0 {
		s.releaseMemory()
		return in.Fill()
	}
	s.rewriter.rules = s.g.codec.policy.Load()
	n, raw := 0, buf
	if !s.reader.parser.Started {
		n, s.reader.args = resp.Cut(buf, s.reader.args[:0])
		raw = buf[:n]
	}
	if n == 0 {
		var err error
		if n, raw, err = s.parse(buf); n == 0 || err != nil {
			return err
		}
	}
	s.reader.frame, s.requested = n, true
	var err error
	if len(s.reader.args) > 0 { // the server does not reply to an empty request either
		s.upstream.beginRequest()
		r := &s.req // set field by field: copying the whole struct is slow
		r.args, r.raw, r.unguarded = s.reader.args, raw, false
		err = s.handle(r)
	}
	if s.failure == nil {
		in.Discard(n)
	}
	return err
}

// releaseMemory drops the memory of earlier requests, except short slices, before the client may become idle. It also
// clears what points into the reader's buffer, which is about to go back to the pool.
func (s *session) releaseMemory() {
	s.req = request{}
	if cap(s.sealedArgs) > maxIdleArgs {
		s.sealedArgs = nil
	}
	if cap(s.reader.args) > maxIdleArgs {
		s.reader.args = nil
	}
	clear(s.reader.args[:cap(s.reader.args)])
}

// shouldContinue reports whether the session continues after a read error. While draining, it keeps a client that
// has a transaction open or a reply outstanding. After the grace period it ends the session also inside a
// transaction, or when the outstanding command blocks on the server. The server then sees an ordinary end of
// input: the blocked command pops nothing more, and what it popped before still reaches the client.
func (s *session) shouldContinue(err error) bool {
	idle := s.upstream.isIdle() && !s.upstream.tx.open
	if !idle && s.Overdue() {
		idle = s.upstream.isIdle() || s.upstream.mayBlock()
	}
	if s.requested {
		s.NoteRequest()
		s.requested = false
	}
	if !s.ContinueAfterRead(err, idle && len(s.reader.in.Buffered()) == 0) {
		return false
	}
	s.BeforeRequest()
	return true
}

// parse handles a request at the beginning of buf that is incomplete or not of the usual form. It returns the
// request's length n and its bytes raw, which are nil for an inline request. n == 0 means that it handled a
// large request or read more bytes.
func (s *session) parse(buf []byte) (n int, raw []byte, err error) {
	p := &s.reader.parser
	n, err = p.Parse(buf)
	switch {
	case err != nil:
		return 0, nil, s.passProtocolError()
	case n > 0 && p.Inline:
		line, _ := bytes.CutSuffix(buf[:n-1], crlf[:1])
		args, ok := resp.SplitInline(line)
		if !ok {
			return 0, nil, s.passProtocolError()
		}
		s.reader.args = args
	case n > 0:
		raw, s.reader.args = buf[:n], s.reader.args[:0]
		for _, sp := range p.Args {
			s.reader.args = append(s.reader.args, raw[sp.Off:sp.Off+sp.Len:sp.Off+sp.Len])
		}
	case s.upstream.isShared(): // only a whole request goes to a shared connection
		if !s.reader.isLarge() {
			return 0, nil, s.reader.in.Fill()
		}
		if err := s.upstream.pinForWrite(); err != nil {
			return 0, nil, s.endUnplaced(err)
		}
		return s.parse(buf)
	case s.large.canStreamValue():
		s.upstream.noteWrite()
		s.failure = s.large.streamValue()
		return 0, nil, s.failure
	case s.reader.isLarge():
		s.upstream.noteWrite()
		if err := s.large.request(); err != nil { // where the next request begins is unknown
			s.failure = err
		}
		return 0, nil, s.failure
	default:
		return 0, nil, s.reader.in.Fill()
	}
	p.Reset()
	return n, raw, nil
}

// handleCollected handles a request whose arguments have been collected, and then drops its references to
// them.
func (s *session) handleCollected(args [][]byte) error {
	defer func() { s.req = request{} }()
	s.req = request{args: args}
	return s.handle(&s.req)
}

// handle sends one request upstream as its table row says. Values in it are compressed; if none changes, the
// request is forwarded unchanged.
func (s *session) handle(r *request) error {
	cmd := s.reader.rows.lookup(r.args[0])
	r.cmd = cmd
	if s.upstream.sharing != nil {
		if ok, err := s.place(r); !ok {
			return s.endUnplaced(err)
		}
	}
	s.rewriter.compressTime = 0
	if t := s.rewriter.trace; t != nil && t.begin(cmd, s.upstream.queue.pushed) {
		defer func() { t.sent(s.upstream.queue.pushed, s.rewriter.compressTime) }()
	}
	if s.upstream.tx.open && s.upstream.tx.multi.refused.Load() {
		s.upstream.tx.end()
	}
	if !cmd.accepts(len(r.args)) || s.upstream.isSubscriber() && cmd.strategy != controls {
		return s.upstream.forward(r, entry{}) // the server refuses it
	}
	if s.upstream.tx.open {
		if refusal := s.queueRefusal(cmd); refusal != "" {
			return s.upstream.refuse(refusal)
		}
		s.upstream.tx.mayAddEnvelope = s.upstream.tx.mayAddEnvelope || s.upstream.tx.lastMayAddEnvelope
		s.upstream.tx.lastMayAddEnvelope = cmd.strategy != controls && mayAddEnvelope(cmd)
	}
	if cmd.optional && !s.user.sideConn.supports(cmd) {
		return s.storedCommands().unknown(r)
	}
	switch cmd.strategy {
	case values:
	case verbatim:
		return s.upstream.forward(r, entry{flags: cmd.flags})
	case controls:
		return s.control.handle(r)
	default:
		return s.handleStored(r)
	}

	// Some arguments are values to compress, or elements of the reply to decompress.
	e := entry{flags: cmd.flags}
	reads, compares := cmd.reply != shapeNone, false
	if cmd.name == "set" {
		known, gets := false, false
		if known, compares, gets = setOptions(r.args[3:]); !known {
			return s.storedCommands().unknown(r)
		}
		reads = compares || gets
	}
	if reads {
		s.rewriter.prepareReply(r, &e)
	}
	spec := &cmd.args
	if spec.kind == noValues {
		return s.upstream.forward(r, e)
	}
	at, is := spec.positions(r.args, len(r.args))
	switch is {
	case unknownOptions:
		return s.storedCommands().unknown(r)
	case refused, needMore:
		return s.upstream.forward(r, e)
	}

	// All compressed values of the request go into one buffer, one after the other.
	b := sealedValues{at: s.sealedArgs[:0]}
	for i := at.first; i < at.end; i += at.step {
		value := r.args[i]
		a := s.rewriter.address(spec.kind, r.args[1], r.args[i-1], len(value))
		off, sealed := len(b.buf), false
		if b.buf, sealed = s.rewriter.sealValue(b.buf, &a, value, at.computed); !sealed {
			continue
		}
		b.at = append(b.at, sealedArg{i, off, len(b.buf)})
		if s.upstream.tx.open {
			envelope := b.buf[off:]
			s.upstream.tx.mayAddEnvelope = true
			s.upstream.tx.remember(envelope, s.rewriter.codec.clientValue(envelope, value))
		}
	}
	if s.rewriter.compressTime > 0 {
		s.g.cfg.Stats.Latency(s.rewriter.compressTime)
	}
	var err error
	switch {
	case compares && e.data != nil:
		err = s.upstream.refuse(textToPlain)
	case compares:
		err = s.storedCommands().compare(r, b.applyTo(r.args))
	case len(b.at) == 0:
		err = s.upstream.forward(r, e)
	default:
		for _, at := range b.at {
			r.args[at.arg] = b.buf[at.off:at.end]
		}
		r.raw = nil
		err = s.upstream.forward(r, e)
	}
	memory.PutBuffer(b.buf)
	s.sealedArgs = b.at
	return err
}

// endUnplaced ends the session unless err is nil: its request has got no connection to the server.
func (s *session) endUnplaced(err error) error {
	if err == nil || s.Context().Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, errSessionEnded) {
		s.failure = err
		return err
	}
	return s.failWith("ERR cinch: no connection to the server: " + err.Error())
}

// handleStored runs a command that works on stored values.
func (s *session) handleStored(r *request) error {
	switch {
	case !s.rewriter.hasToPlainKey(r):
		return s.storedCommands().run(r)
	case r.needsNoValue():
		return s.upstream.forward(r, entry{flags: r.cmd.flags})
	}
	return s.upstream.refuse(textToPlain)
}

// queueRefusal decides whether a command may be queued in the open transaction. It returns "" or the refusal.
func (s *session) queueRefusal(cmd *command) (refusal string) {
	switch {
	case endsTransaction[cmd.name]:
	case s.upstream.tx.queuedBytes > maxTransactionBytes:
		return "ERR cinch: the transaction has too many commands that the gateway must rewrite"
	case !s.upstream.tx.tryReserve():
		s.g.cfg.Stats.Error("budget")
		return "ERR cinch: " + errNoMemory.Error()
	}
	return ""
}

// passProtocolError sends the rest of the client's bytes to the server, which replies with the error and
// closes the connection.
func (s *session) passProtocolError() error {
	s.g.cfg.Stats.Error("protocol")
	if err := s.upstream.pinForWrite(); err != nil {
		return s.endUnplaced(err)
	}
	if err := s.upstream.out.write(s.reader.in.Buffered()); err != nil {
		return err
	}
	s.reader.in.Discard(len(s.reader.in.Buffered()))
	return s.passRaw()
}

// passRaw copies from the client to the server without parsing.
func (s *session) passRaw() error {
	if err := s.upstream.Flush(); err != nil {
		return err
	}
	s.reader.in.Free()
	s.failure = gateway.Relay(s.Upstream, s.Client)
	if s.failure == nil {
		s.failure = net.ErrClosed
	}
	return s.failure
}

// relayRest passes the rest of the connection to the server, starting with the buffered bytes after the
// current request.
func (s *session) relayRest() error {
	if err := s.upstream.out.write(s.reader.in.Buffered()[s.reader.frame:]); err != nil {
		return err
	}
	s.reader.in.Discard(len(s.reader.in.Buffered()))
	if err := s.passRaw(); err != nil {
		return err
	}
	return net.ErrClosed
}

// failWith ends the session with an error. The request that caused it is incomplete upstream, so the server
// runs no part of it.
func (s *session) failWith(text string) error {
	s.g.cfg.Log.Warn("session ended", "reason", text)
	s.replyPump.finalError.Store(&text)
	s.failure = net.ErrClosed
	return s.failure
}

// Authenticated implements gateway.Authenticator.
func (s *session) Authenticated() bool { return s.upstream.state.auth.IsOpen() }

// requestReader reads the client's requests.
type requestReader struct {
	upstream   *upstreamWriter
	from       source
	in         *resp.Reader
	parser     resp.Parser
	rows       rowCache
	watchLater bool // stall watching starts only when all replies have arrived
	inRequest  bool // inside a large request: a drain waits for its end
	frame      int  // bytes of the current request that are still in the buffer
	args       [][]byte
}

// init sets up the reader, which flushes the pending output of upstream before it waits for bytes.
func (t *requestReader) init(upstream *upstreamWriter, table table) {
	t.upstream, t.rows.table = upstream, table
	t.from = source{conn: upstream.life.Client, reader: t}
	t.in = resp.NewReader(&t.from, upstream, bufferBytes)
}

// beginStallWatch starts watching the client for stalls while the gateway waits for its next bytes, if its
// requests may hold memory: inside a large request, in a transaction, and until the replies to EXEC have been
// carried. It reports whether endStallWatch must be called. A client in a transaction may itself be waiting for
// +QUEUED, so between requests it is watched only from the last reply on.
func (t *requestReader) beginStallWatch() (watched bool) {
	if t == nil || !t.inRequest && !t.upstream.tx.open && t.upstream.executing.Load() == 0 {
		return false
	}
	if t.watchLater = !t.inRequest && t.upstream.tx.isQueueing() && len(t.in.Buffered()) == 0; t.watchLater {
		t.upstream.queue.watchAfterLast(t.upstream.life.Requests)
	} else {
		t.upstream.life.Requests.Await(memory.FromClient)
	}
	return true
}

func (t *requestReader) endStallWatch() {
	if t.watchLater {
		t.upstream.queue.cancelWatch()
	}
	t.upstream.life.Requests.Awaited(memory.FromClient)
}

// enter marks the beginning of a request that a drain waits for.
func (t *requestReader) enter() {
	t.inRequest = true
	t.upstream.life.NoteRequest()
}

// leave marks the end of such a request.
func (t *requestReader) leave() {
	t.inRequest = false
	t.upstream.life.BeforeRequest()
}

// shouldFinish reports whether a drain interrupted a read in the middle of a request, which is finished first.
func (t *requestReader) shouldFinish(err error) bool {
	if t == nil || !t.inRequest || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = t.upstream.life.Client.SetReadDeadline(time.Time{})
	return true
}

// isLarge reports whether the request does not fit the buffer.
func (t *requestReader) isLarge() bool {
	if t.in.Full() {
		return true
	}
	n, ok := t.parser.Bulk()
	return ok && t.parser.Pos()+n+2 > bufferBytes
}

// sessionState is the state of a connection that the server's answers change and later requests depend on.
type sessionState struct {
	dialed        time.Time                   // a time before the connection of the next request was dialed
	version       atomic.Int32                // RESP 2 or 3
	pendingLogins atomic.Int32                // logins without an answer yet
	subscriptions atomic.Int64                // of all kinds
	selected      atomic.Pointer[string]      // the database, as the policy names it
	credentials   atomic.Pointer[credentials] // the client's login
	auth          gateway.AuthGate            // passed by logging in
	tx            *transaction
}

func (t *sessionState) init(tx *transaction, authProbe *gateway.AuthProbe) {
	t.tx = tx
	t.selected.Store(&defaultDatabase)
	t.version.Store(2)
	t.auth.Probe = authProbe
}

// defaultDatabase is the database of a new connection.
var defaultDatabase = "0"

// credentials are the client's login. They are kept for the second connection as long as the session lives.
type credentials struct{ user, password string }

// database returns the database that the next request's values go to.
func (t *sessionState) database() string {
	if t.tx.selected != nil {
		return *t.tx.selected
	}
	return *t.selected.Load()
}

// login returns the name of the user that the current request's values belong to, "" for the server's default
// user. Dictionaries are trained on, and used for, the values of one user.
func (t *sessionState) login() string {
	if t.pendingLogins.Load() > 0 || t.tx.changesLogin {
		return gateway.LoginUnknown
	}
	c := t.credentials.Load()
	if c == nil || c.user == "default" {
		return ""
	}
	return c.user
}

// clientReply is the state of CLIENT REPLY. The gateway keeps it itself and has the server reply to
// everything, since replies could not be matched to requests otherwise.
type clientReply struct{ off, skip, skipNext bool }

// askingState is the state of ASKING, which the server keeps for the next command only. If the gateway sends
// several commands for one of the client, it must repeat ASKING before each.
type askingState struct {
	next          bool // the client has sent it for the next request
	on            bool // it applies to the current request
	sent          bool // the current request has sent something
	inTransaction bool // in a transaction of the gateway, which keeps it
}
