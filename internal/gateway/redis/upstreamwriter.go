package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// upstreamWriter sends the request pump's requests to the server and queues the expected replies. Everything
// sent upstream for a client goes through it, so that each reply finds its entry in the queue.
type upstreamWriter struct {
	life  *gateway.PumpedSession
	out   sink
	queue queue
	pump  replyControl
	stats *gateway.Stats

	sharing   *sharing // nil: the client has a connection of its own from the start
	state     sessionState
	tx        transaction
	executing atomic.Int32 // EXECs whose replies are outstanding and for which Requests holds memory

	subscribing bool // a subscription was sent and may not have been answered yet
	clientReply clientReply
	asking      askingState
	monitoring  bool // MONITOR is on
	recentKeys  recentKeys
	scratch     *[resp.MaxHeaderLen]byte
}

// replyControl is the part of the reply pump that the request pump uses.
type replyControl interface {
	// unblock lets it continue if it is waiting for the client to read.
	unblock()
	// midReply reports whether it is handling a reply whose end may not have arrived yet.
	midReply() bool

	// Only hooks, which the reply pump itself calls, may change its state: discard forgets the commands
	// queued for EXEC, reset also the subscriptions, and monitor makes it expect MONITOR's lines.
	discard()
	reset()
	monitor()
}

// init sets up the writer; pump carries its replies by the queue's entries.
func (c *upstreamWriter) init(life *gateway.PumpedSession, pump replyControl, authProbe *gateway.AuthProbe, stats *gateway.Stats) {
	c.life, c.pump, c.stats = life, pump, stats
	c.out.conn, c.out.beforeSend = life.Upstream, c.queue.publish
	c.queue.init(life.Replies)
	c.tx.account = life.Requests
	c.state.init(&c.tx, authProbe)
}

// Flush sends the requests that were written so far, which must be whole. It implements [resp.Flusher].
func (c *upstreamWriter) Flush() error {
	if err := c.out.Flush(); err != nil || c.sharing == nil {
		return err
	}
	c.out.err = c.commit(false)
	return c.out.err
}

// await waits until the reply pump closes o.done. It returns errSessionEnded if the reply pump ends first.
func (c *upstreamWriter) await(o *entryData) error {
	if err := c.Flush(); err != nil {
		return err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		select {
		case <-o.done:
			return nil
		case <-t.C:
			c.closeIfBlocked()
			c.pump.unblock()
			t.Reset(patience)
		case <-c.life.RepliesDone():
			select {
			case <-o.done: // it was the pump's last action
				return nil
			default:
				c.release(o)
				return errSessionEnded
			}
		}
	}
}

// release releases the budget that o's answer holds.
func (c *upstreamWriter) release(o *entryData) {
	c.life.Replies.Release(o.held)
	o.held = 0
}

// forwardAndWait sends a request that may change the protocol version, and waits for its reply: the next
// request depends on the version.
func (c *upstreamWriter) forwardAndWait(r *request, o *entryData) error {
	if !c.tx.open {
		o.done = make(chan struct{})
	}
	if err := c.forward(r, entry{kind: kindHook, data: o}); err != nil || o.done == nil {
		return err
	}
	return c.await(o)
}

// ask sends a request and waits for its answer.
func (c *upstreamWriter) ask(e entry, args [][]byte) error {
	if err := c.expect(e); err != nil {
		return err
	}
	if err := c.send(args); err != nil {
		return err
	}
	return c.await(e.data)
}

// resendAsking sends ASKING again, hidden from the client, if the server has consumed it.
func (c *upstreamWriter) resendAsking() error {
	again := c.asking.sent && !c.asking.inTransaction && !c.tx.open
	c.asking.sent = true
	if !again {
		return nil
	}
	if err := c.queue.push(entry{flags: flagHidden}, c.onWait); err != nil {
		return err
	}
	return c.out.write(askingRequest)
}

// query sends a small request of the gateway on the client's connection and returns the answer.
func (c *upstreamWriter) query(args ...string) (answer, error) {
	bytes := make([][]byte, len(args))
	for i, a := range args {
		bytes[i] = []byte(a)
	}
	o := &entryData{done: make(chan struct{})}
	if err := c.ask(entry{kind: kindCapture, data: o}, bytes); err != nil {
		return answer{}, err
	}
	c.release(o)
	return o.answer, nil
}

// beginRequest resets the state that applied to the last request alone.
func (c *upstreamWriter) beginRequest() {
	c.clientReply.skip, c.clientReply.skipNext = c.clientReply.skipNext, false // CLIENT REPLY SKIP applies to one request
	c.asking = askingState{on: c.asking.next}
}

// forward sends a request with its current arguments and queues e for its reply.
func (c *upstreamWriter) forward(r *request, e entry) error {
	if err := c.expect(e); err != nil {
		return err
	}
	if e.shape != shapeNone {
		c.recentKeys.record(c.queue.pushed, r, e.shape)
	}
	if r.raw != nil {
		return c.out.lend(r.raw)
	}
	return c.send(r.args)
}

// send writes a request made of args.
func (c *upstreamWriter) send(args [][]byte) error {
	size := resp.MaxHeaderLen
	for _, a := range args {
		size += resp.MaxHeaderLen + len(a) + len(crlf)
	}
	if size <= copyBytes {
		if dst := c.out.spare(size); dst != nil {
			c.out.buf = resp.AppendArgs(dst, args)
		}
		return c.out.err
	}
	_ = c.out.write(resp.AppendArray(c.head(), len(args))) // an error is returned at the end, too
	for _, a := range args {
		_ = c.sendBulk(a)
	}
	return c.out.err
}

func (c *upstreamWriter) sendBulk(b []byte) error {
	_ = c.out.write(resp.AppendBulkHeader(c.head(), len(b))) // an error is returned at the end, too
	_ = c.out.write(b)
	return c.out.write(crlf)
}

// head returns a small buffer for one header line.
func (c *upstreamWriter) head() []byte {
	if c.scratch == nil {
		c.scratch = new([resp.MaxHeaderLen]byte)
	}
	return c.scratch[:0]
}

// expect queues the entry of a request that is about to be written. It must be called before the write, so
// that the reply finds the entry. It adds the flags that the session's state requires.
func (c *upstreamWriter) expect(e entry) error {
	if c.asking.on {
		if err := c.resendAsking(); err != nil {
			return err
		}
	}
	if c.clientReply.off || c.clientReply.skip {
		e.flags |= flagMute
	}
	if c.tx.open {
		e.flags |= flagQueued
	}
	if c.sharing != nil {
		e.flags |= c.sharing.flags
	}
	err := c.queue.push(e, c.onWait)
	if c.tx.open && c.queue.next.n == 0 { // entries that are only counted take no memory
		c.tx.queuedBytes += e.weight()
	}
	return err
}

// onWait is called before the request pump waits for room in the queue, and the returned stop after the
// wait. In between it keeps the reply pump from getting stuck.
func (c *upstreamWriter) onWait() (stop func()) {
	if c.out.Flush() == nil && c.sharing != nil {
		c.out.err = c.commit(true)
	}
	return c.keepReading()
}

// keepReading keeps the reply pump from getting stuck until stop is called.
func (c *upstreamWriter) keepReading() (stop func()) {
	done := make(chan struct{})
	go c.keepUnblocked(done)
	return func() { close(done) }
}

// awaitReplies waits until every reply so far has arrived. It reports false if the reply pump has ended.
func (c *upstreamWriter) awaitReplies() bool {
	return c.queue.publish() == nil && c.queue.waitEmpty(c.onWait)
}

// isIdle reports whether no reply is outstanding, not even the end of one: the server drops what it has yet
// to send when the gateway ends its side. A reply that begins at this moment may be missed.
func (c *upstreamWriter) isIdle() bool {
	return c.queue.next.n == 0 && c.queue.empty() && !c.pump.midReply()
}

// mayBlock reports whether the next reply may never come: it belongs to a command that blocks, and none of it
// has arrived.
func (c *upstreamWriter) mayBlock() bool { return c.queue.nextMayBlock() && !c.pump.midReply() }

func (c *upstreamWriter) keepUnblocked(done <-chan struct{}) {
	defer c.life.Catch()
	t := time.NewTicker(patience)
	defer t.Stop()
	for {
		c.pump.unblock()
		select {
		case <-t.C:
			c.closeIfBlocked()
		case <-done:
			return
		}
	}
}

// closeIfBlocked closes the upstream connection for writing if the client has ended its side while a command blocks.
// The server then drops the client, as it would without a gateway. Other commands that the client has sent before are
// still carried out, with all of their steps.
func (c *upstreamWriter) closeIfBlocked() {
	if c.mayBlock() && gateway.PeerClosed(c.life.Client) {
		_ = gateway.CloseWrite(c.life.Upstream)
	}
}

// refuse answers a request with an error from the gateway. In its place it sends a request that the server
// refuses in every state, so that the reply keeps its position and an open transaction is aborted as by any
// other bad command.
func (c *upstreamWriter) refuse(text string) error {
	if !cluster.IsRedirectOrRetry(text) {
		c.stats.Error("refused")
	}
	if err := c.expect(entry{kind: kindRefuse, data: &entryData{text: text}}); err != nil {
		return err
	}
	return c.out.write(invalidRequest)
}

// replyWith answers a request with a frame of the gateway, at the position of its reply.
func (c *upstreamWriter) replyWith(frame []byte) error {
	if err := c.expect(entry{kind: kindFrame, data: &entryData{text: string(frame)}}); err != nil {
		return err
	}
	return c.out.write(invalidRequest)
}

// isUnauthenticated reports whether the server requires a login and the client has not logged in. If the client has
// sent its login, isUnauthenticated first waits for the answer: the server may run the commands behind it.
func (c *upstreamWriter) isUnauthenticated() bool {
	switch {
	case !c.state.auth.MustAuthenticate(c.life.Context()):
		return false
	case c.state.pendingLogins.Load() == 0 || !c.awaitReplies():
		return true
	}
	return c.state.auth.MustAuthenticate(c.life.Context())
}

// sendCapture sends a request whose reply is kept. Await the returned data before reading it.
func (c *upstreamWriter) sendCapture(args ...[]byte) (*entryData, error) {
	o := &entryData{done: make(chan struct{})}
	if err := c.expect(entry{kind: kindCapture, data: o}); err != nil {
		return nil, err
	}
	return o, c.send(args)
}

func (c *upstreamWriter) queryBytes(args ...[]byte) (*entryData, error) {
	o, err := c.sendCapture(args...)
	if err != nil {
		return nil, err
	}
	return o, c.await(o)
}

// sendHidden sends a request of the gateway whose reply the client does not see.
func (c *upstreamWriter) sendHidden(args [][]byte) error {
	if err := c.expect(entry{flags: flagHidden}); err != nil {
		return err
	}
	return c.send(args)
}

var invalidRequest = []byte("*1\r\n$4\r\nECHO\r\n")

var askingRequest = []byte("*1\r\n$6\r\nASKING\r\n")

// isSubscriber reports whether this is a RESP2 client with subscriptions, from which the server accepts only
// commands about subscriptions.
func (c *upstreamWriter) isSubscriber() bool {
	if c.state.version.Load() != 2 || !c.subscribing && c.state.subscriptions.Load() == 0 {
		return false
	}
	if !c.awaitReplies() { // an outstanding answer may change it
		return false
	}
	c.subscribing = false
	return c.state.subscriptions.Load() > 0
}

// maxRecentKeys is the number of requests for values whose keys a session remembers. Deeper in a pipeline the key
// of a corrupt value is unknown.
const maxRecentKeys = 16

// recentKeys remembers the keys of the latest requests, so that the log can name the key pattern of a value that
// cannot be decompressed. The request pump writes it, the reply pump reads it.
type recentKeys struct {
	mu   sync.Mutex
	ring *[maxRecentKeys]recentKey // nil until first used
}

type recentKey struct {
	request uint64
	length  uint8
	key     [patternLength]byte // its first length bytes are the beginning of the key
}

// record remembers the key of r, a request for values, before its first byte is sent. number is the position of
// its reply.
func (a *recentKeys) record(number uint64, r *request, shape shape) {
	if shape >= shapeStreams || len(r.args) < 2 {
		return // the key is elsewhere in the request
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		a.ring = new([maxRecentKeys]recentKey)
	}
	k := &a.ring[number%maxRecentKeys]
	k.request = number
	k.length = uint8(copy(k.key[:], r.args[1]))
}

// pattern returns the key pattern of a request, "" if it is unknown.
func (a *recentKeys) pattern(request uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		return ""
	}
	if k := &a.ring[request%maxRecentKeys]; k.request == request {
		return patternOf(k.key[:k.length])
	}
	return ""
}
