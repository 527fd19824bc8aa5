package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// conversation is what the request pump says to the server, and what it expects as answers. All that
// goes upstream for a client goes through it, so that each reply finds its entry in the queue.
type conversation struct {
	life  *gateway.Life
	up    sink
	queue queue
	pump  replying
	stats *gateway.Stats

	st        standing
	tx        transaction
	executing atomic.Int32 // EXECs without replies yet, for which Requests holds memory

	subscribing bool // a subscription was sent, whose answer may not have come
	replies     muting
	asks        asks
	asked       asked
	scratch     *[resp.MaxHeaderLen]byte
}

// replying is the reply pump, as the request pump sees it.
type replying interface {
	// unstick lets it go on where it waits for the client to read.
	unstick()
	// midReply says whether it is with a reply of which the server may have more to send.
	midReply() bool

	// What replies change in it is for hooks only, which it calls itself: discard forgets what was queued for EXEC,
	// reset subscriptions too, and monitor has it expect lines that nobody asked for.
	discard()
	reset()
	monitor()
}

// init begins a conversation whose replies pump carries, by the entries of the queue.
func (c *conversation) init(life *gateway.Life, pump replying, keeper *gateway.Doorkeeper, stats *gateway.Stats) {
	c.life, c.pump, c.stats = life, pump, stats
	c.up.conn, c.up.before = life.Upstream, c.queue.publish
	c.queue.init(life.Replies)
	c.tx.account = life.Requests
	c.st.init(&c.tx, keeper)
}

// await waits for the reply pump's answer.
func (c *conversation) await(o *op) error {
	if err := c.up.Flush(); err != nil {
		return err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		select {
		case <-o.done:
			return nil
		case <-t.C:
			if gateway.PeerClosed(c.life.Client) { // the server must hear of it, or a blocked command goes on
				_ = gateway.CloseWrite(c.life.Upstream)
			}
			c.pump.unstick()
			t.Reset(patience)
		case <-c.life.Dead():
			select {
			case <-o.done: // it was the last thing that the pump did
				return nil
			default:
				c.letGo(o)
				return errGone
			}
		}
	}
}

// letGo gives back the budget that an answer holds.
func (c *conversation) letGo(o *op) {
	c.life.Replies.Release(o.held)
	o.held = 0
}

// forwardAndWait sends a request after which the version of the protocol may be another:
// how the next one is sent depends on it.
func (c *conversation) forwardAndWait(r *request, o *op) error {
	if !c.tx.open {
		o.done = make(chan struct{})
	}
	if err := c.forward(r, entry{kind: kindHook, op: o}); err != nil || o.done == nil {
		return err
	}
	return c.await(o)
}

// ask sends a request whose answer the request pump waits for.
func (c *conversation) ask(e entry, args [][]byte) error {
	if err := c.expect(e); err != nil {
		return err
	}
	if err := c.send(args); err != nil {
		return err
	}
	return c.await(e.op)
}

// askAgain repeats ASKING, hidden from the client, where the server has forgotten it.
func (c *conversation) askAgain() error {
	again := c.asks.sent && !c.asks.inside && !c.tx.open
	c.asks.sent = true
	if !again {
		return nil
	}
	if err := c.queue.push(entry{flags: flagHidden}, c.beforeWait); err != nil {
		return err
	}
	return c.up.write(askingRequest)
}

// askPlainly sends a small request of the gateway's own on the client's connection and
// waits for the answer.
func (c *conversation) askPlainly(args ...string) (answer, error) {
	bytes := make([][]byte, len(args))
	for i, a := range args {
		bytes[i] = []byte(a)
	}
	o := &op{done: make(chan struct{})}
	if err := c.ask(entry{kind: kindCapture, op: o}, bytes); err != nil {
		return answer{}, err
	}
	c.letGo(o)
	return o.answer, nil
}

// begin forgets what held for the last request alone.
func (c *conversation) begin() {
	c.replies.skip, c.replies.skipNext = c.replies.skipNext, false // what CLIENT REPLY SKIP says holds for one request
	c.asks = asks{on: c.asks.next}
}

// forward sends a request with the arguments that it has now and queues e for its reply.
func (c *conversation) forward(r *request, e entry) error {
	if err := c.expect(e); err != nil {
		return err
	}
	if e.shape != shapeNone {
		c.asked.note(c.queue.pushed, r, e.shape)
	}
	if r.raw != nil {
		return c.up.lend(r.raw)
	}
	return c.send(r.args)
}

// send writes a request made of args.
func (c *conversation) send(args [][]byte) error {
	size := resp.MaxHeaderLen
	for _, a := range args {
		size += resp.MaxHeaderLen + len(a) + len(crlf)
	}
	if size <= copyBytes {
		if dst := c.up.spare(size); dst != nil {
			c.up.buf = resp.AppendArgs(dst, args)
		}
		return c.up.err
	}
	_ = c.up.write(resp.AppendArray(c.head(), len(args))) // a failure is told of at the end, too
	for _, a := range args {
		_ = c.sendBulk(a)
	}
	return c.up.err
}

func (c *conversation) sendBulk(b []byte) error {
	_ = c.up.write(resp.AppendBulkHeader(c.head(), len(b))) // a failure is told of at the end, too
	_ = c.up.write(b)
	return c.up.write(crlf)
}

// head is a small buffer for one header line.
func (c *conversation) head() []byte {
	if c.scratch == nil {
		c.scratch = new([resp.MaxHeaderLen]byte)
	}
	return c.scratch[:0]
}

// expect queues an entry for a request that is about to be written; it must come first,
// so that the reply finds it. It adds what the conversation's state says.
func (c *conversation) expect(e entry) error {
	if c.asks.on {
		if err := c.askAgain(); err != nil {
			return err
		}
	}
	if c.replies.off || c.replies.skip {
		e.flags |= flagMute
	}
	if c.tx.open {
		e.flags |= flagQueued
	}
	err := c.queue.push(e, c.beforeWait)
	if c.tx.open && c.queue.next.n == 0 { // those that are counted together take nothing
		c.tx.entries += e.weight()
	}
	return err
}

// beforeWait is called before the request pump waits for room in the queue, and what it
// returns afterwards. In between the reply pump must not be stuck.
func (c *conversation) beforeWait() (stop func()) {
	_ = c.up.Flush()
	done := make(chan struct{})
	go c.keepUnstuck(done)
	return func() { close(done) }
}

// settle waits until every reply so far has come. It reports false when the reply pump has ended.
func (c *conversation) settle() bool {
	return c.queue.publish() == nil && c.queue.waitEmpty(c.beforeWait)
}

// settled reports that no reply is outstanding, nor the end of one: what the server has yet to send
// it drops when we end our side. It may miss a reply that begins at this moment.
func (c *conversation) settled() bool {
	return c.queue.next.n == 0 && c.queue.empty() && !c.pump.midReply()
}

// waits reports that nothing comes before something happens that may never: what is to be answered next is a command that
// waits, and nothing has come of its reply.
func (c *conversation) waits() bool { return c.queue.waits() && !c.pump.midReply() }

func (c *conversation) keepUnstuck(done <-chan struct{}) {
	defer c.life.Catch()
	t := time.NewTicker(patience)
	defer t.Stop()
	for {
		c.pump.unstick()
		select {
		case <-t.C:
			if gateway.PeerClosed(c.life.Client) {
				_ = gateway.CloseWrite(c.life.Upstream)
			}
		case <-done:
			return
		}
	}
}

// refuse answers a request with an error of ours. A request that the server refuses in
// every state carries it, so that the reply keeps its place and an open transaction is
// aborted as by any other bad command.
func (c *conversation) refuse(text string) error {
	if !cluster.Elsewhere(text) {
		c.stats.Error("refused")
	}
	if err := c.expect(entry{kind: kindRefuse, op: &op{text: text}}); err != nil {
		return err
	}
	return c.up.write(refusedByServer)
}

// answer answers a request with a frame of the gateway's own, in its turn.
func (c *conversation) answer(frame []byte) error {
	if err := c.expect(entry{kind: kindOwn, op: &op{text: string(frame)}}); err != nil {
		return err
	}
	return c.up.write(refusedByServer)
}

// isStranger reports whether the client has yet to log in, where the server asks for that. One that has sent its login is
// not taken for a stranger before the answer has come: the server may carry out what is behind it.
func (c *conversation) isStranger() bool {
	switch {
	case !c.st.door.Stranger(c.life.Context()):
		return false
	case c.st.loggingIn.Load() == 0 || !c.settle():
		return true
	}
	return c.st.door.Stranger(c.life.Context())
}

// sendCapture sends a request whose reply is kept; await its op before looking.
func (c *conversation) sendCapture(args ...[]byte) (*op, error) {
	o := &op{done: make(chan struct{})}
	if err := c.expect(entry{kind: kindCapture, op: o}); err != nil {
		return nil, err
	}
	return o, c.send(args)
}

func (c *conversation) askBytes(args ...[]byte) (*op, error) {
	o, err := c.sendCapture(args...)
	if err != nil {
		return nil, err
	}
	return o, c.await(o)
}

// sendHidden sends a request of ours whose reply the client does not see.
func (c *conversation) sendHidden(args [][]byte) error {
	if err := c.expect(entry{flags: flagHidden}); err != nil {
		return err
	}
	return c.send(args)
}

// muting is the state of CLIENT REPLY, which the gateway keeps itself: the server answers
// everything, or replies could not be told apart.
type muting struct{ off, skip, skipNext bool }

// asks is the state of ASKING, which the server keeps for the command that follows. Where
// the gateway sends several for one of the client, each has to bring it.
type asks struct {
	next   bool // the client has sent it: it holds for the next request
	on     bool // it holds for the request at hand
	sent   bool // the request at hand has sent something
	inside bool // in a transaction of ours, which keeps it
}

var refusedByServer = []byte("*1\r\n$4\r\nECHO\r\n")

var askingRequest = []byte("*1\r\n$6\r\nASKING\r\n")

// standing is what a conversation has come to: the server's answers change it, and the next requests
// depend on it.
type standing struct {
	version   atomic.Int32                // RESP 2 or 3
	channels  atomic.Int64                // subscriptions
	space     atomic.Pointer[string]      // the database, as the policy names it
	who       atomic.Pointer[credentials] // as whom the client has logged in
	loggingIn atomic.Int32                // logins without an answer yet
	door      gateway.Door                // that the client passes by logging in
	monitors  bool                        // MONITOR is on
	tx        *transaction
}

func (t *standing) init(tx *transaction, keeper *gateway.Doorkeeper) {
	t.tx = tx
	t.space.Store(&firstSpace)
	t.version.Store(2)
	t.door.Keeper = keeper
}

// firstSpace is where every connection begins.
var firstSpace = "0"

// credentials are what the client logged in with. They are kept for the second connection, for as long
// as the session lives.
type credentials struct{ user, password string }

// where is the database that the next request's values go to.
func (t *standing) where() string {
	if t.tx.space != nil {
		return *t.tx.space
	}
	return *t.space.Load()
}

// login is who writes what the request at hand brings, "" for the server's default user: dictionaries
// are made of, and for, the values of one.
func (t *standing) login() string {
	if t.loggingIn.Load() > 0 || t.tx.login {
		return gateway.LoginUnknown
	}
	who := t.who.Load()
	if who == nil || who.user == "default" {
		return ""
	}
	return who.user
}

// subscribed reports a RESP2 client with subscriptions: the server takes nothing from
// it but commands about them.
func (c *conversation) subscribed() bool {
	if c.st.version.Load() != 2 || !c.subscribing && c.st.channels.Load() == 0 {
		return false
	}
	if !c.settle() { // an answer may be on its way that changes it
		return false
	}
	c.subscribing = false
	return c.st.channels.Load() > 0
}

// askedKeys is how many requests for values a session remembers the keys of. Deeper in a
// pipeline the key of a broken value is not known.
const askedKeys = 16

// asked remembers which keys the latest requests were for, so that the log can name the kind of
// key whose value does not open. The request pump writes, the reply pump reads.
type asked struct {
	mu   sync.Mutex
	ring *[askedKeys]askedKey // nil until the first
}

type askedKey struct {
	request uint64
	length  uint8
	key     [patternLength]byte // its beginning
}

// note remembers the key of r, which asks for values, before its first byte is sent. Its reply is the number'th.
func (a *asked) note(number uint64, r *request, shape shape) {
	if shape >= shapeStreams || len(r.args) < 2 {
		return // the key stands elsewhere
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		a.ring = new([askedKeys]askedKey)
	}
	k := &a.ring[number%askedKeys]
	k.request = number
	k.length = uint8(copy(k.key[:], r.args[1]))
}

// pattern is the kind of key that a request was for; empty when that is not known.
func (a *asked) pattern(request uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		return ""
	}
	if k := &a.ring[request%askedKeys]; k.request == request {
		return patternOf(k.key[:k.length])
	}
	return ""
}
