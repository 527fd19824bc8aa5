package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// conversation sends the request pump's requests to the server and queues the expected replies. Everything
// sent upstream for a client goes through it, so that each reply finds its entry in the queue.
type conversation struct {
	life  *gateway.Life
	up    sink
	queue queue
	pump  replying
	stats *gateway.Stats

	st        standing
	tx        transaction
	executing atomic.Int32 // EXECs whose replies are outstanding and for which Requests holds memory

	subscribing bool // a subscription was sent and may not have been answered yet
	replies     muting
	asks        asks
	asked       asked
	scratch     *[resp.MaxHeaderLen]byte
}

// replying is the part of the reply pump that the request pump uses.
type replying interface {
	// unstick lets it continue if it is waiting for the client to read.
	unstick()
	// midReply reports whether it is handling a reply of which the server may have more to send.
	midReply() bool

	// Only hooks, which the reply pump itself calls, may change its state: discard forgets the commands
	// queued for EXEC, reset also the subscriptions, and monitor makes it expect MONITOR's lines.
	discard()
	reset()
	monitor()
}

// init sets up a conversation; pump carries its replies by the queue's entries.
func (c *conversation) init(life *gateway.Life, pump replying, keeper *gateway.Doorkeeper, stats *gateway.Stats) {
	c.life, c.pump, c.stats = life, pump, stats
	c.up.conn, c.up.before = life.Upstream, c.queue.publish
	c.queue.init(life.Replies)
	c.tx.account = life.Requests
	c.st.init(&c.tx, keeper)
}

// await waits until the reply pump has the answer.
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
			c.endBlocked()
			c.pump.unstick()
			t.Reset(patience)
		case <-c.life.Dead():
			select {
			case <-o.done: // it was the pump's last action
				return nil
			default:
				c.letGo(o)
				return errGone
			}
		}
	}
}

// letGo releases the budget that an answer holds.
func (c *conversation) letGo(o *op) {
	c.life.Replies.Release(o.held)
	o.held = 0
}

// forwardAndWait sends a request that may change the protocol version, and waits for its reply: the next
// request depends on the version.
func (c *conversation) forwardAndWait(r *request, o *op) error {
	if !c.tx.open {
		o.done = make(chan struct{})
	}
	if err := c.forward(r, entry{kind: kindHook, op: o}); err != nil || o.done == nil {
		return err
	}
	return c.await(o)
}

// ask sends a request and waits for its answer.
func (c *conversation) ask(e entry, args [][]byte) error {
	if err := c.expect(e); err != nil {
		return err
	}
	if err := c.send(args); err != nil {
		return err
	}
	return c.await(e.op)
}

// askAgain sends ASKING again, hidden from the client, if the server has consumed it.
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

// askPlainly sends a small request of the gateway on the client's connection and returns the answer.
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

// begin resets the state that applied to the last request alone.
func (c *conversation) begin() {
	c.replies.skip, c.replies.skipNext = c.replies.skipNext, false // CLIENT REPLY SKIP applies to one request
	c.asks = asks{on: c.asks.next}
}

// forward sends a request with its current arguments and queues e for its reply.
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
	_ = c.up.write(resp.AppendArray(c.head(), len(args))) // an error is returned at the end, too
	for _, a := range args {
		_ = c.sendBulk(a)
	}
	return c.up.err
}

func (c *conversation) sendBulk(b []byte) error {
	_ = c.up.write(resp.AppendBulkHeader(c.head(), len(b))) // an error is returned at the end, too
	_ = c.up.write(b)
	return c.up.write(crlf)
}

// head returns a small buffer for one header line.
func (c *conversation) head() []byte {
	if c.scratch == nil {
		c.scratch = new([resp.MaxHeaderLen]byte)
	}
	return c.scratch[:0]
}

// expect queues the entry of a request that is about to be written. It must be called before the write, so
// that the reply finds the entry. It adds the flags that the conversation's state requires.
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
	if c.tx.open && c.queue.next.n == 0 { // entries that are only counted take no memory
		c.tx.entries += e.weight()
	}
	return err
}

// beforeWait is called before the request pump waits for room in the queue, and the returned stop after the
// wait. In between it keeps the reply pump from getting stuck.
func (c *conversation) beforeWait() (stop func()) {
	_ = c.up.Flush()
	done := make(chan struct{})
	go c.keepUnstuck(done)
	return func() { close(done) }
}

// settle waits until every reply so far has arrived. It reports false if the reply pump has ended.
func (c *conversation) settle() bool {
	return c.queue.publish() == nil && c.queue.waitEmpty(c.beforeWait)
}

// settled reports whether no reply is outstanding, not even the end of one: the server drops what it has yet
// to send when the gateway ends its side. A reply that begins at this moment may be missed.
func (c *conversation) settled() bool {
	return c.queue.next.n == 0 && c.queue.empty() && !c.pump.midReply()
}

// waits reports whether the next reply may never come: it belongs to a command that blocks, and none of it
// has arrived.
func (c *conversation) waits() bool { return c.queue.waits() && !c.pump.midReply() }

func (c *conversation) keepUnstuck(done <-chan struct{}) {
	defer c.life.Catch()
	t := time.NewTicker(patience)
	defer t.Stop()
	for {
		c.pump.unstick()
		select {
		case <-t.C:
			c.endBlocked()
		case <-done:
			return
		}
	}
}

// endBlocked ends the requests to the server if the client has ended its side while a command blocks: the
// server then drops the client, as it would without a gateway. Other commands that the client has sent before
// are still carried out, the rest of their steps included.
func (c *conversation) endBlocked() {
	if c.waits() && gateway.PeerClosed(c.life.Client) {
		_ = gateway.CloseWrite(c.life.Upstream)
	}
}

// refuse answers a request with an error from the gateway. In its place it sends a request that the server
// refuses in every state, so that the reply keeps its position and an open transaction is aborted as by any
// other bad command.
func (c *conversation) refuse(text string) error {
	if !cluster.IsRedirectOrRetry(text) {
		c.stats.Error("refused")
	}
	if err := c.expect(entry{kind: kindRefuse, op: &op{text: text}}); err != nil {
		return err
	}
	return c.up.write(refusedByServer)
}

// answer answers a request with a frame of the gateway, at the position of its reply.
func (c *conversation) answer(frame []byte) error {
	if err := c.expect(entry{kind: kindOwn, op: &op{text: string(frame)}}); err != nil {
		return err
	}
	return c.up.write(refusedByServer)
}

// isStranger reports whether the server requires a login and the client has not logged in. If the client has
// sent its login, isStranger first waits for the answer: the server may run the commands behind it.
func (c *conversation) isStranger() bool {
	switch {
	case !c.st.door.Stranger(c.life.Context()):
		return false
	case c.st.loggingIn.Load() == 0 || !c.settle():
		return true
	}
	return c.st.door.Stranger(c.life.Context())
}

// sendCapture sends a request whose reply is kept. Await the returned op before reading it.
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

// sendHidden sends a request of the gateway whose reply the client does not see.
func (c *conversation) sendHidden(args [][]byte) error {
	if err := c.expect(entry{flags: flagHidden}); err != nil {
		return err
	}
	return c.send(args)
}

// muting is the state of CLIENT REPLY. The gateway keeps it itself and has the server reply to everything,
// since replies could not be matched to requests otherwise.
type muting struct{ off, skip, skipNext bool }

// asks is the state of ASKING, which the server keeps for the next command only. If the gateway sends several
// commands for one of the client, it must repeat ASKING before each.
type asks struct {
	next   bool // the client has sent it for the next request
	on     bool // it applies to the current request
	sent   bool // the current request has sent something
	inside bool // in a transaction of the gateway, which keeps it
}

var refusedByServer = []byte("*1\r\n$4\r\nECHO\r\n")

var askingRequest = []byte("*1\r\n$6\r\nASKING\r\n")

// standing is the state of a connection that the server's answers change and later requests depend on.
type standing struct {
	version   atomic.Int32                // RESP 2 or 3
	channels  atomic.Int64                // subscriptions
	space     atomic.Pointer[string]      // the database, as the policy names it
	who       atomic.Pointer[credentials] // the client's login
	loggingIn atomic.Int32                // logins without an answer yet
	door      gateway.Door                // passed by logging in
	monitors  bool                        // MONITOR is on
	tx        *transaction
}

func (t *standing) init(tx *transaction, keeper *gateway.Doorkeeper) {
	t.tx = tx
	t.space.Store(&firstSpace)
	t.version.Store(2)
	t.door.Keeper = keeper
}

// firstSpace is the database of a new connection.
var firstSpace = "0"

// credentials are the client's login. They are kept for the second connection as long as the session lives.
type credentials struct{ user, password string }

// where returns the database that the next request's values go to.
func (t *standing) where() string {
	if t.tx.space != nil {
		return *t.tx.space
	}
	return *t.space.Load()
}

// login returns the name of the user that the current request's values belong to, "" for the server's default
// user. Dictionaries are trained on, and used for, the values of one user.
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

// subscribed reports whether this is a RESP2 client with subscriptions, from which the server accepts only
// commands about subscriptions.
func (c *conversation) subscribed() bool {
	if c.st.version.Load() != 2 || !c.subscribing && c.st.channels.Load() == 0 {
		return false
	}
	if !c.settle() { // an outstanding answer may change it
		return false
	}
	c.subscribing = false
	return c.st.channels.Load() > 0
}

// askedKeys is the number of requests for values whose keys a session remembers. Deeper in a pipeline the key
// of a broken value is unknown.
const askedKeys = 16

// asked remembers the keys of the latest requests, so that the log can name the key pattern of a value that
// cannot be decompressed. The request pump writes it, the reply pump reads it.
type asked struct {
	mu   sync.Mutex
	ring *[askedKeys]askedKey // nil until first used
}

type askedKey struct {
	request uint64
	length  uint8
	key     [patternLength]byte // the first bytes of it
}

// note remembers the key of r, a request for values, before its first byte is sent. number is the position of
// its reply.
func (a *asked) note(number uint64, r *request, shape shape) {
	if shape >= shapeStreams || len(r.args) < 2 {
		return // the key is elsewhere in the request
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

// pattern returns the key pattern of a request, "" if it is unknown.
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
