package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// session is one client and its upstream connection. The request pump owns the fields
// of its section, the reply pump those of its own; what both use is atomic or locked.
type session struct {
	g        *Gateway
	conn     net.Conn // the client's
	upstream net.Conn
	dialed   time.Time // when that was
	queue    queue
	dead     chan struct{}   // closed when the reply pump has ended
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	draining atomic.Bool
	ended    atomic.Bool  // the client has ended its side, or wants that
	unstuck  atomic.Bool  // unstick interrupted a write to the client, or will interrupt the next one
	version  atomic.Int32 // RESP 2 or 3
	channels atomic.Int64 // subscriptions
	closing  sync.Once
	door     gateway.Door // that the client passes by logging in

	requestRoom, replyRoom *gateway.Account // in the budgets

	// request pump
	in          *resp.Reader
	up          sink
	parser      resp.Parser
	subscribing bool // has sent a subscription whose answer may not have come
	inside      bool // a large request: a drain waits for its end
	looked      bool // draining: idle, and the last read found nothing
	frame       int  // bytes of the request at hand that are still in the buffer
	args        [][]byte
	req         request // the one at hand, when it came from the buffer
	recent      [8]recent
	scratch     []byte  // of sealed arguments, between requests nil
	ahead       *ahead  // of the large request at hand: its value, compressed while it arrived
	holds       []int64 // of the request budget, for values that the request at hand puts back
	owes        int64   // held for it without budget yet
	tx          transaction
	watched     bool
	watching    watching
	monitors    bool                   // MONITOR is on
	tracking    bool                   // CLIENT TRACKING is on: what is read on this connection counts as cached by the client
	lastWords   atomic.Pointer[string] // sent to the client when the session fails
	lua         luaRights
	units       unitRights
	aux         *auxConn
	failed      error
	replies     muting
	asked       asked
	last        entry // the one pushed last; n more like it are not in the queue yet
	asks        asks
	reads       bool // READONLY is on

	space atomic.Pointer[string]      // the database, as the policy names it
	who   atomic.Pointer[credentials] // as whom the client has logged in

	loggingIn atomic.Int32 // logins without an answer yet

	// reply pump
	out replyPump
}

// muting is the state of CLIENT REPLY, which the gateway keeps itself: the server answers
// everything, or replies could not be told apart.
type muting struct{ off, skip, skipNext bool }

// next begins a request: what CLIENT REPLY SKIP said of it holds for it alone.
func (m *muting) next() { m.skip, m.skipNext = m.skipNext, false }

// beginRequest forgets what held for the last request alone.
func (s *session) beginRequest() {
	s.replies.next()
	s.asks.begin()
}

func newSession(g *Gateway, client, upstream net.Conn) *session {
	s := &session{g: g, conn: client, upstream: upstream, dead: make(chan struct{})}
	s.space.Store(&firstSpace)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.requestRoom = g.requests.Account(gateway.PayerOf(client), s.stream(client, upstream))
	s.replyRoom = g.replies.Account(gateway.PayerOf(client), s.stream(upstream, client))
	s.door.Keeper = &g.keeper
	s.queue.init(s.replyRoom)
	s.tx.budget = s.requestRoom
	s.version.Store(2)
	s.up.conn, s.up.before = upstream, s.pushCounted
	s.in = resp.NewReader(&source{conn: client, idle: s.up.flush, room: s.requestRoom, goOn: s.finishes}, bufferBytes)
	s.out.init(s)
	return s
}

func (s *session) stream(from, to net.Conn) *gateway.Stream {
	return &gateway.Stream{From: from, To: to, Client: s.conn, Limit: s.g.cfg.Stall, Stats: s.g.cfg.Stats, Log: s.g.cfg.Log}
}

// Run pumps until both sides are done. The client's end of input is passed on at once:
// the server then drops what it was blocked on, as it does for a client of its own.
func (s *session) Run() {
	defer s.requestRoom.Close()
	defer s.replyRoom.Close()
	defer s.Close()
	go s.runReplies()
	s.pumpRequests()
	s.ended.Store(true)
	_ = gateway.CloseWrite(s.upstream)
	<-s.dead
}

func (s *session) runReplies() {
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
	defer close(s.dead)
	// A server whose replies nobody reads may stop reading too, in the middle of a request.
	defer func() { _ = s.upstream.SetWriteDeadline(time.Now().Add(s.g.cfg.Stall)) }()
	defer s.conn.Close() // unblocks the request pump
	defer s.queue.close()
	s.pumpReplies()
	s.checkDicts() // before the request pump ends because of us
}

// checkDicts has the dictionaries checked when the server ended a connection that the
// client had not: it may have restarted without them.
func (s *session) checkDicts() {
	if s.g.cfg.Dicts != nil && !s.ended.Load() {
		s.g.cfg.Dicts.Lost()
	}
}

// Close cuts both connections.
func (s *session) Close() error {
	s.closing.Do(func() {
		s.cancel()
		_ = s.conn.Close()
		_ = s.upstream.Close()
		s.aux.close()
	})
	return nil
}

// Drain wakes the request pump, which then stops at the next place between commands
// where nothing is outstanding.
func (s *session) Drain() {
	s.draining.Store(true)
	_ = s.conn.SetReadDeadline(time.Now())
}

// request is one request of the client. Its bytes live until it has been handled.
type request struct {
	cmd  *command
	args [][]byte
	raw  []byte // the request as it came, nil when it has no such form

	unguarded bool // its user may run no script on its keys
}

// pumpRequests reads requests until the client ends or an error.
func (s *session) pumpRequests() {
	defer s.in.Free()
	defer s.up.flush() // what it was lent is the reader's
	defer s.endTransaction()
	for s.failed == nil {
		if err := s.nextRequest(); err != nil && !s.carryOn(err) {
			return
		}
	}
}

// carryOn decides about a failed read: a drain that finds the session busy goes on. So does
// one that finds it idle for the first time, since a read after its deadline does not look
// whether bytes have come.
func (s *session) carryOn(err error) bool {
	if !s.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	idle := len(s.in.Buffered()) == 0 && !s.tx.open && s.settled()
	if idle && s.looked {
		return false
	}
	s.looked = idle
	_ = s.conn.SetReadDeadline(time.Now().Add(drainPoll))
	return true
}

// finishes reports that a read that a drain interrupted is in the middle of a request,
// which is finished first.
func (s *session) finishes(err error) bool {
	if !s.inside || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	return true
}

// drainPoll is how often a draining session looks whether it is idle.
const drainPoll = 20 * time.Millisecond

// nextRequest handles one request, or reads more of it.
func (s *session) nextRequest() error {
	buf := s.in.Buffered()
	if n, ok := s.cut(buf); ok {
		return s.handleCut(buf[:n])
	}
	n, err := s.parser.Parse(buf)
	switch {
	case err != nil:
		return s.passProtocolError()
	case n > 0:
		s.frame, s.looked = n, false
		err = s.handleBuffered(buf[:n])
		if s.failed == nil {
			s.in.Discard(n)
		}
		s.parser.Reset()
		return err
	case s.streamsValue():
		s.failed = s.streamValue()
		return s.failed
	case s.isLarge():
		if err := s.largeRequest(); err != nil { // what is left of it can't be told from requests
			s.failed = err
		}
		return s.failed
	}
	return s.in.Fill()
}

// cut finds the arguments of a request that lies in the buffer as a whole, as most do. What the
// parser has begun it ends.
func (s *session) cut(buf []byte) (n int, ok bool) {
	if s.parser.Started() {
		return 0, false
	}
	n, s.args = resp.Cut(buf, s.args[:0])
	return n, n > 0
}

// handleCut handles the request raw, whose arguments have been found.
func (s *session) handleCut(raw []byte) error {
	s.frame, s.looked = len(raw), false
	err := s.handleArgs(raw)
	if s.failed == nil {
		s.in.Discard(len(raw))
	}
	return err
}

// isLarge reports that the request will not fit the buffer.
func (s *session) isLarge() bool {
	if s.in.Full() {
		return true
	}
	n, ok := s.parser.Bulk()
	return ok && s.parser.Pos()+n+2 > bufferBytes
}

func (s *session) handleBuffered(raw []byte) error {
	if s.parser.Inline {
		return s.handleInline(raw)
	}
	if len(s.parser.Args) == 0 {
		return nil // "*0": the server says nothing to it either
	}
	s.args = s.args[:0]
	for _, sp := range s.parser.Args {
		s.args = append(s.args, raw[sp.Off:sp.Off+sp.Len:sp.Off+sp.Len])
	}
	return s.handleArgs(raw)
}

// handleArgs handles the request raw, whose arguments are s.args.
func (s *session) handleArgs(raw []byte) error {
	s.beginRequest()
	s.req.args, s.req.raw = s.args, raw
	return s.handle(&s.req)
}

func (s *session) handleInline(raw []byte) error {
	line := raw[:len(raw)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	args, ok := resp.SplitInline(line)
	if !ok {
		return s.passProtocolError()
	}
	if len(args) == 0 {
		return nil
	}
	s.beginRequest()
	return s.handle(&request{args: args})
}

// recent is a command that the client has sent, with its name as it wrote it.
type recent struct {
	name [8]byte
	n    int
	cmd  *command
}

// lookup is the table's, but for names that come again and again.
func (s *session) lookup(name []byte) *command {
	if len(name) == 0 || len(name) > len(recent{}.name) {
		return s.g.table.lookup(name)
	}
	r := &s.recent[(name[0]>>1^byte(len(name)))%byte(len(s.recent))]
	if string(r.name[:r.n]) != string(name) {
		r.n, r.cmd = copy(r.name[:], name), s.g.table.lookup(name)
	}
	return r.cmd
}

// handle sends one request upstream in the way its row of the table says.
func (s *session) handle(r *request) error {
	r.cmd = s.lookup(r.args[0])
	if s.tx.open && s.tx.refused.Load() {
		s.endTransaction()
	}
	if !r.cmd.accepts(len(r.args)) || s.subscribed() && r.cmd.strategy != controls {
		return s.forward(r, entry{}) // the server refuses it
	}
	if s.tx.entries > maxTransactionBytes && r.cmd.strategy != controls {
		return s.refuse("ERR cinch: the transaction has too many commands that need care")
	}
	if !s.tx.fits() && r.cmd.strategy != controls {
		s.g.cfg.Stats.Error("budget")
		return s.refuse("ERR cinch: " + errNoRoom.Error())
	}
	if r.cmd.recent && !s.serverKnows(r.cmd) {
		return s.handled(s.handleUnknown(r))
	}
	if s.tx.open && r.cmd.strategy != controls {
		defer func() { s.tx.brings = s.tx.brings || mayBring(r.cmd) }() // from the next one on
	}
	switch r.cmd.strategy {
	case verbatim:
		return s.forward(r, entry{})
	case values:
		return s.handleValues(r)
	case computed:
		return s.handleComputed(r)
	case inflated:
		return s.handled(s.handleInflated(r))
	case compared:
		return s.handled(s.handleCompared(r))
	case floats:
		return s.handled(s.handleFloat(r))
	case scripts:
		return s.handled(s.handleScript(r))
	case sorts:
		return s.handled(s.handleSort(r))
	case controls:
		return r.cmd.control(s, r)
	}
	return s.handled(s.handleUnknown(r))
}

// subscribed reports a RESP2 client with subscriptions: the server takes nothing from
// it but commands about them.
func (s *session) subscribed() bool {
	if s.version.Load() != 2 || !s.subscribing && s.channels.Load() == 0 {
		return false
	}
	if !s.settle() { // an answer may be on its way that changes it
		return false
	}
	s.subscribing = false
	return s.channels.Load() > 0
}

// forward sends a request as it is and queues e for its reply.
func (s *session) forward(r *request, e entry) error {
	s.asked.note(r, e.shape)
	if err := s.expect(e); err != nil {
		return err
	}
	if r.raw != nil {
		return s.up.lend(r.raw)
	}
	return s.send(r.args)
}

// send writes a request made of args.
func (s *session) send(args [][]byte) error {
	if err := s.up.write(resp.AppendArray(s.head(), len(args))); err != nil {
		return err
	}
	for _, a := range args {
		if err := s.sendBulk(a); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) sendBulk(b []byte) error {
	if err := s.up.write(resp.AppendBulkHeader(s.head(), len(b))); err != nil {
		return err
	}
	if err := s.up.write(b); err != nil {
		return err
	}
	return s.up.write(crlf)
}

var crlf = []byte("\r\n")

// head is a small buffer for one header line.
func (s *session) head() []byte {
	if s.scratch == nil {
		s.scratch = make([]byte, 0, 32)
	}
	return s.scratch[:0]
}

// expect queues an entry for a request that is about to be written; it must come first,
// so that the reply finds it. It adds what the conversation's state says.
func (s *session) expect(e entry) error {
	e.n = 1
	if err := s.askAgain(); err != nil {
		return err
	}
	if s.tx.open {
		e.flags |= flagQueued
		if e.op != nil {
			s.tx.entries += e.weight()
		}
	}
	if s.replies.off || s.replies.skip {
		e.flags |= flagMute
	}
	return s.push(e)
}

// push queues e. Those like the one before are counted, and added when their requests leave.
func (s *session) push(e entry) error {
	s.asked.requests += uint64(e.n)
	if s.last.sameAs(&e) {
		s.last.n += e.n
		return nil
	}
	if err := s.pushCounted(); err != nil {
		return err
	}
	s.last = entry{kind: e.kind, shape: e.shape, flags: e.flags}
	if e.op != nil {
		s.last.kind = kindRaw // nothing is like it; and its op is not kept alive
	}
	return s.pushNow(e)
}

// pushCounted adds the entries that were only counted; it must come before anything is sent. It
// never waits: they are like the one pushed last, which is still the queue's last or has left it
// empty.
func (s *session) pushCounted() error {
	if s.last.n == 0 {
		return nil
	}
	e := s.last
	s.last.n = 0
	return s.pushNow(e)
}

func (s *session) pushNow(e entry) error {
	if !s.queue.push(e, s.beforeWait) {
		return net.ErrClosed
	}
	return nil
}

// beforeWait is called before the request pump waits for room in the queue, and what it
// returns afterwards. In between the reply pump must not be stuck.
func (s *session) beforeWait() (stop func()) {
	_ = s.up.flush()
	done := make(chan struct{})
	go s.keepUnstuck(done)
	return func() { close(done) }
}

// settle waits until every reply so far has come. It reports false when the reply pump has ended.
func (s *session) settle() bool {
	return s.pushCounted() == nil && s.queue.waitEmpty(s.beforeWait)
}

// settled reports that no reply is outstanding, nor the end of one: what the server has yet to send
// it drops when we end our side. It may miss a reply that begins at this moment.
func (s *session) settled() bool { return s.last.n == 0 && s.queue.empty() && !s.out.busy.Load() }

func (s *session) keepUnstuck(done <-chan struct{}) {
	t := time.NewTicker(patience)
	defer t.Stop()
	for {
		s.out.spill.unstick()
		select {
		case <-t.C:
			if gateway.PeerClosed(s.conn) {
				_ = gateway.CloseWrite(s.upstream)
			}
		case <-done:
			return
		}
	}
}

// refuse answers a request with an error of ours. A request that the server refuses in
// every state carries it, so that the reply keeps its place and an open transaction is
// aborted as by any other bad command.
func (s *session) refuse(text string) error {
	if !cluster.Elsewhere(text) {
		s.g.cfg.Stats.Error("refused")
	}
	if err := s.expect(entry{kind: kindRefuse, op: &op{text: text}}); err != nil {
		return err
	}
	return s.up.write(refusedByServer)
}

var refusedByServer = []byte("*1\r\n$4\r\nECHO\r\n")

// rules are the policy at this moment.
func (s *session) rules() *policy.Policy { return s.g.policy.Load() }

// passProtocolError hands the rest of the client's bytes to the server, which words the
// error and closes the connection.
func (s *session) passProtocolError() error {
	s.g.cfg.Stats.Error("protocol")
	if err := s.up.write(s.in.Buffered()); err != nil {
		return err
	}
	s.in.Discard(len(s.in.Buffered()))
	return s.passRaw()
}

// passRaw copies from the client to the server without looking.
func (s *session) passRaw() error {
	if err := s.up.flush(); err != nil {
		return err
	}
	s.in.Free()
	s.failed = gateway.Relay(s.upstream, s.conn)
	if s.failed == nil {
		s.failed = net.ErrClosed
	}
	return s.failed
}

// firstSpace is where every connection begins.
var firstSpace = "0"
