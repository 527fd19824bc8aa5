package redis

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// session is one client and its upstream connection. It reads requests and passes each to the part that its
// table row names; common requests it handles itself.
type session struct {
	*gateway.Life
	g      *Gateway
	failed error
	came   bool // a request arrived since the last read error

	req request // the current one

	sealedArgs []sealedArg // of the current request; kept for the next one

	intake  intake
	talk    conversation
	seals   seals
	stash   stash
	user    user
	stored  *storedCommands // nil until first needed
	control control
	large   large

	out replyPump
}

func newSession(g *Gateway, client, upstream net.Conn, dialed time.Time) *session {
	s := &session{g: g}
	s.Life = gateway.NewLife(gateway.LifeConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Grace: g.cfg.Grace, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.talk.init(s.Life, &s.out, &g.keeper, g.cfg.Stats)
	s.out.init(s.Life, &s.talk.queue, &s.talk.asked, &s.talk.st, g.vault, g.cfg.view)
	s.intake.init(&s.talk, g.table)
	s.seals.vault, s.seals.st, s.seals.dialed = g.vault, &s.talk.st, dialed
	s.seals.trace = newTracing(&g.cfg, upstream)
	s.out.opening.trace = s.seals.trace
	s.stash.vault, s.stash.talk, s.stash.stall = g.vault, &s.talk, g.cfg.Stall
	s.user.second.init(g.dialer, &s.talk, &g.commands, &g.bodies)
	s.OnClose = s.user.second.close
	s.control.init(g, &s.talk, &s.user, s)
	s.large = large{intake: &s.intake, talk: &s.talk, seals: &s.seals, stash: &s.stash, desk: s}
	return s
}

// onStored returns the handler of commands that run on stored values. It creates it on first use, since many
// clients never need one.
func (s *session) onStored() *storedCommands {
	if s.stored == nil {
		s.stored = newStoredCommands(&s.talk, &s.user, &s.stash, inCluster(s.g.cfg.view))
	}
	return s.stored
}

// Run runs both pumps until both sides are done.
func (s *session) Run() {
	defer s.seals.trace.close()
	s.Life.Run(s.carryRequests, s.carryReplies)
}

// carryRequests runs the request pump and then passes the client's end of input on at once: the server then
// drops a blocked command, as it does for a directly connected client.
func (s *session) carryRequests() {
	s.pumpRequests()
	s.PassEnd()
}

func (s *session) carryReplies() {
	defer s.talk.queue.close()
	s.out.run()
	if s.g.cfg.Dicts != nil && !s.Ended() { // ended by the server, which may have restarted without them
		s.g.cfg.Dicts.Lost() // before the request pump ends because of this
	}
}

// pumpRequests reads requests until the client ends its input or an error occurs.
func (s *session) pumpRequests() {
	defer s.intake.in.Free()
	defer s.talk.up.Flush() // lent bytes are in the reader's buffer
	defer s.talk.tx.end()
	for s.failed == nil {
		if err := s.next(); err != nil && !s.carryOn(err) {
			return
		}
	}
}

// next handles one request, or reads more bytes. Most requests have the usual form and are complete in the
// buffer; parse handles the others. In every case next takes the policy snapshot by which the request's
// values are compressed.
func (s *session) next() error {
	in := s.intake.in
	buf := in.Buffered()
	if len(buf) == 0 {
		s.letGo()
		return in.Fill()
	}
	s.seals.rules = s.g.vault.policy.Load()
	n, raw := 0, buf
	if !s.intake.parser.Started {
		n, s.intake.args = resp.Cut(buf, s.intake.args[:0])
		raw = buf[:n]
	}
	if n == 0 {
		var err error
		if n, raw, err = s.parse(buf); n == 0 || err != nil {
			return err
		}
	}
	s.intake.frame, s.came = n, true
	var err error
	if len(s.intake.args) > 0 { // the server does not reply to an empty request either
		s.talk.begin()
		r := &s.req // set field by field: copying the whole struct is slow
		r.args, r.raw, r.unguarded = s.intake.args, raw, false
		err = s.handle(r)
	}
	if s.failed == nil {
		in.Discard(n)
	}
	return err
}

// letGo drops the memory of earlier requests, except short slices, before the client may become idle. It also
// clears what points into the reader's buffer, which is about to go back to the pool.
func (s *session) letGo() {
	s.req = request{}
	if cap(s.sealedArgs) > maxIdleArgs {
		s.sealedArgs = nil
	}
	if cap(s.intake.args) > maxIdleArgs {
		s.intake.args = nil
	}
	clear(s.intake.args[:cap(s.intake.args)])
}

// carryOn reports whether the session continues after a read error. While draining, it keeps a client that
// has a transaction open or a reply outstanding. After the grace period it ends the session also inside a
// transaction, or when the outstanding command blocks on the server. The server then sees an ordinary end of
// input: the blocked command pops nothing more, and what it popped before still reaches the client.
func (s *session) carryOn(err error) bool {
	idle := s.talk.settled() && !s.talk.tx.open
	if !idle && s.Overdue() {
		idle = s.talk.settled() || s.talk.waits()
	}
	if s.came {
		s.Requested()
		s.came = false
	}
	if !s.GoesOn(err, idle && len(s.intake.in.Buffered()) == 0) {
		return false
	}
	s.BeforeRequest()
	return true
}

// parse handles a request at the beginning of buf that is incomplete or not of the usual form. It returns the
// request's length n and its bytes raw, which are nil for an inline request. n == 0 means that it handled a
// large request or read more bytes.
func (s *session) parse(buf []byte) (n int, raw []byte, err error) {
	p := &s.intake.parser
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
		s.intake.args = args
	case n > 0:
		raw, s.intake.args = buf[:n], s.intake.args[:0]
		for _, sp := range p.Args {
			s.intake.args = append(s.intake.args, raw[sp.Off:sp.Off+sp.Len:sp.Off+sp.Len])
		}
	case s.large.streamsValue():
		s.failed = s.large.streamValue()
		return 0, nil, s.failed
	case s.intake.isLarge():
		if err := s.large.request(); err != nil { // the rest of it can't be told from requests
			s.failed = err
		}
		return 0, nil, s.failed
	default:
		return 0, nil, s.intake.in.Fill()
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
	cmd := s.intake.rows.lookup(r.args[0])
	r.cmd = cmd
	s.seals.took = 0
	if t := s.seals.trace; t != nil && t.begin(cmd, s.talk.queue.pushed) {
		defer func() { t.sent(s.talk.queue.pushed, s.seals.took) }()
	}
	if s.talk.tx.open && s.talk.tx.multi.refused.Load() {
		s.talk.tx.end()
	}
	if !cmd.accepts(len(r.args)) || s.talk.subscribed() && cmd.strategy != controls {
		return s.talk.forward(r, entry{}) // the server refuses it
	}
	if s.talk.tx.open {
		if refusal := s.queues(cmd); refusal != "" {
			return s.talk.refuse(refusal)
		}
		s.talk.tx.brings = s.talk.tx.brings || s.talk.tx.lastBrings
		s.talk.tx.lastBrings = cmd.strategy != controls && mayBring(cmd)
	}
	if cmd.recent && !s.user.second.knows(cmd) {
		return s.onStored().unknown(r)
	}
	switch cmd.strategy {
	case values:
	case verbatim:
		return s.talk.forward(r, entry{flags: cmd.flags})
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
			return s.onStored().unknown(r)
		}
		reads = compares || gets
	}
	if reads {
		s.seals.reply(r, &e)
	}
	spec := &cmd.args
	if spec.kind == noValues {
		return s.talk.forward(r, e)
	}
	at, is := spec.places(r.args, len(r.args))
	switch is {
	case strange:
		return s.onStored().unknown(r)
	case refused, cutOff:
		return s.talk.forward(r, e)
	}

	// All compressed values of the request go into one buffer, one after the other.
	b := sealing{at: s.sealedArgs[:0]}
	for i := at.first; i < at.end; i += at.step {
		value := r.args[i]
		a := s.seals.address(spec.kind, r.args[1], r.args[i-1], len(value))
		off, sealed := len(b.buf), false
		if b.buf, sealed = s.seals.sealValue(b.buf, &a, value, at.computed); !sealed {
			continue
		}
		b.at = append(b.at, sealedArg{i, off, len(b.buf)})
		if s.talk.tx.open {
			envelope := b.buf[off:]
			s.talk.tx.brings = true
			s.talk.tx.remember(envelope, s.seals.vault.standsFor(envelope, value))
		}
	}
	if s.seals.took > 0 {
		s.g.cfg.Stats.Latency(s.seals.took)
	}
	var err error
	switch {
	case compares && e.op != nil:
		err = s.talk.refuse(textToPlain)
	case compares:
		err = s.onStored().compare(r, b.in(r.args))
	case len(b.at) == 0:
		err = s.talk.forward(r, e)
	default:
		for _, at := range b.at {
			r.args[at.arg] = b.buf[at.off:at.end]
		}
		r.raw = nil
		err = s.talk.forward(r, e)
	}
	memory.PutBuffer(b.buf)
	s.sealedArgs = b.at
	return err
}

// handleStored runs a command that works on stored values.
func (s *session) handleStored(r *request) error {
	switch {
	case !s.seals.worksOnPlain(r):
		return s.onStored().run(r)
	case r.needsNoValue():
		return s.talk.forward(r, entry{flags: r.cmd.flags})
	}
	return s.talk.refuse(textToPlain)
}

// queues decides whether a command may be queued in the open transaction. It returns "" or the refusal.
func (s *session) queues(cmd *command) (refusal string) {
	switch {
	case endsTransaction[cmd.name]:
	case s.talk.tx.entries > maxTransactionBytes:
		return "ERR cinch: the transaction has too many commands that the gateway must rewrite"
	case !s.talk.tx.fits():
		s.g.cfg.Stats.Error("budget")
		return "ERR cinch: " + errNoRoom.Error()
	}
	return ""
}

// passProtocolError sends the rest of the client's bytes to the server, which replies with the error and
// closes the connection.
func (s *session) passProtocolError() error {
	s.g.cfg.Stats.Error("protocol")
	if err := s.talk.up.write(s.intake.in.Buffered()); err != nil {
		return err
	}
	s.intake.in.Discard(len(s.intake.in.Buffered()))
	return s.passRaw()
}

// passRaw copies from the client to the server without parsing.
func (s *session) passRaw() error {
	if err := s.talk.up.Flush(); err != nil {
		return err
	}
	s.intake.in.Free()
	s.failed = gateway.Relay(s.Upstream, s.Client)
	if s.failed == nil {
		s.failed = net.ErrClosed
	}
	return s.failed
}

// handOver passes the rest of the connection to the server, starting with the buffered bytes after the
// current request.
func (s *session) handOver() error {
	if err := s.talk.up.write(s.intake.in.Buffered()[s.intake.frame:]); err != nil {
		return err
	}
	s.intake.in.Discard(len(s.intake.in.Buffered()))
	if err := s.passRaw(); err != nil {
		return err
	}
	return net.ErrClosed
}

// failWith ends the session with an error. The request that caused it is incomplete upstream, so the server
// runs no part of it.
func (s *session) failWith(text string) error {
	s.g.cfg.Log.Warn("session ended", "reason", text)
	s.out.lastWords.Store(&text)
	s.failed = net.ErrClosed
	return s.failed
}

// Authenticated implements gateway.Authenticator.
func (s *session) Authenticated() bool { return s.talk.st.door.Passed() }

// intake reads the client's requests.
type intake struct {
	talk   *conversation
	from   source
	in     *resp.Reader
	parser resp.Parser
	rows   rows
	later  bool // stall watching starts only when all replies have arrived
	inside bool // inside a large request: a drain waits for its end
	frame  int  // bytes of the current request that are still in the buffer
	args   [][]byte
}

// init sets up the reader, which flushes talk's pending output before it waits for bytes.
func (t *intake) init(talk *conversation, table table) {
	t.talk, t.rows.table = talk, table
	t.from = source{conn: talk.life.Client, intake: t}
	t.in = resp.NewReader(&t.from, &talk.up, bufferBytes)
}

// await starts watching the client for stalls while the gateway waits for its next bytes, if its requests may
// hold memory: inside a large request, in a transaction, and until the replies to EXEC have been carried. It
// reports whether awaited must be called. A client in a transaction may itself be waiting for +QUEUED, so
// between requests it is watched only from the last reply on.
func (t *intake) await() (watched bool) {
	if t == nil || !t.inside && !t.talk.tx.open && t.talk.executing.Load() == 0 {
		return false
	}
	if t.later = !t.inside && t.talk.tx.answersAtOnce() && len(t.in.Buffered()) == 0; t.later {
		t.talk.queue.awaitBehind(t.talk.life.Requests)
	} else {
		t.talk.life.Requests.Await(memory.FromClient)
	}
	return true
}

func (t *intake) awaited() {
	if t.later {
		t.talk.queue.awaitNone()
	}
	t.talk.life.Requests.Awaited(memory.FromClient)
}

// enter marks the beginning of a request that a drain waits for.
func (t *intake) enter() {
	t.inside = true
	t.talk.life.Requested()
}

// leave marks the end of such a request.
func (t *intake) leave() {
	t.inside = false
	t.talk.life.BeforeRequest()
}

// finishes reports whether a drain interrupted a read in the middle of a request, which is finished first.
func (t *intake) finishes(err error) bool {
	if t == nil || !t.inside || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = t.talk.life.Client.SetReadDeadline(time.Time{})
	return true
}

// isLarge reports whether the request does not fit the buffer.
func (t *intake) isLarge() bool {
	if t.in.Full() {
		return true
	}
	n, ok := t.parser.Bulk()
	return ok && t.parser.Pos()+n+2 > bufferBytes
}
