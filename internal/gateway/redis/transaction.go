package redis

import (
	"bytes"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// transaction is the state of the client's MULTI, for the request pump.
type transaction struct {
	multi          *multiAnswer    // set while it is open
	account        *memory.Account // holds the transaction's memory
	known          []lua.Known     // values compressed for queued SETs; later queued commands may need them plain
	knownBytes     int             // size of known, held from the budget
	queuedBytes    int             // bytes of the entries queued for EXEC
	heldBytes      int             // bytes of the budget held for entries
	selected       *string         // database selected in the transaction; nil: none
	open           bool
	changesState   bool // EXEC changes what the next request depends on
	changesLogin   bool // EXEC changes the login
	asking         bool // ASKING preceded MULTI, and applies to all of it
	mayAddEnvelope bool // a command queued before the current one may bring a compressed value to any key

	lastMayAddEnvelope bool // the command queued last may; the next command adds it to mayAddEnvelope

	watch watching
}

// multiAnswer is the server's reply to MULTI, set by the reply pump.
type multiAnswer struct {
	arrived atomic.Bool
	refused atomic.Bool // the server opened no transaction
}

func (m *multiAnswer) record(a answer) {
	m.refused.Store(a.isError())
	m.arrived.Store(true)
}

// isQueueing reports whether the server queues the next command at once: MULTI has been answered, so no
// command in front of it still blocks.
func (t *transaction) isQueueing() bool {
	return t.open && t.multi.arrived.Load() && !t.multi.refused.Load()
}

// maxTransactionBytes limits the entries of one transaction in memory.
const maxTransactionBytes = 16 << 20

// maxRemembered limits, in bytes, the values kept of a transaction. Beyond it a command that computes on a
// value set earlier in the same transaction gets an error.
const maxRemembered = 1 << 20

// endsTransaction holds the commands that end a transaction. No limit refuses them.
var endsTransaction = map[string]bool{"exec": true, "discard": true, "reset": true, "quit": true}

func (t *transaction) remember(sealed, value []byte) {
	n := len(sealed) + len(value)
	if t.knownBytes+n > maxRemembered || !t.account.TryAcquire(int64(n)) {
		return
	}
	t.knownBytes += n
	t.known = append(t.known, lua.Known{Sealed: bytes.Clone(sealed), Value: bytes.Clone(value)})
}

// tryReserve takes budget for the queued entries beyond the first free bytes. It reports whether there was enough.
func (t *transaction) tryReserve() bool {
	for t.queuedBytes > freeQueueBytes+t.heldBytes {
		if !t.account.TryAcquire(queuePieceBytes) {
			return false
		}
		t.heldBytes += queuePieceBytes
	}
	return true
}

// end ends MULTI, and WATCH with it.
func (t *transaction) end() {
	if t.open && !t.multi.refused.Load() {
		t.endWatch()
	}
	t.account.Release(int64(t.knownBytes + t.heldBytes))
	*t = transaction{account: t.account, watch: t.watch}
}

func (t *transaction) endWatch() { t.watch = watching{} }

// watching is the client's WATCH. If it covers all keys of a transaction, values that were read since then are
// unchanged when EXEC runs.
type watching struct {
	on   bool // until EXEC, DISCARD or UNWATCH
	keys *watchedKeys
}

// watchedKeys holds the watched keys, each prefixed with its database.
type watchedKeys struct {
	all    map[string]bool
	bytes  int
	broken atomic.Bool // the server refused a WATCH, or there were too many keys
}

// maxWatchedBytes limits the remembered keys.
const maxWatchedBytes = 64 << 10

// begin adds watched keys.
func (w *watching) begin(database string, keys [][]byte) *watchedKeys {
	w.on = true
	if w.keys == nil {
		w.keys = &watchedKeys{all: map[string]bool{}}
	}
	w.keys.add(database, keys)
	return w.keys
}

func (w *watchedKeys) add(database string, keys [][]byte) {
	for _, k := range keys {
		if w.bytes += len(database) + 1 + len(k); w.bytes > maxWatchedBytes {
			w.broken.Store(true)
			return
		}
		w.all[database+"/"+string(k)] = true
	}
}

// covers reports whether all keys are watched. The server's replies to WATCH must have arrived.
func (w *watching) covers(database string, keys [][]byte) bool {
	if w.keys == nil || w.keys.broken.Load() {
		return false
	}
	for _, k := range keys {
		if !w.keys.all[database+"/"+string(k)] {
			return false
		}
	}
	return true
}

// multiCommands handles the commands of transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
type multiCommands struct {
	upstream *upstreamWriter
	user     *user
}

func (c *multiCommands) multi(r *request) error {
	if c.upstream.tx.open && !c.upstream.awaitReplies() { // find out whether there is a transaction
		return errSessionEnded
	}
	if c.upstream.tx.open && !c.upstream.tx.multi.refused.Load() {
		return c.upstream.forward(r, entry{})
	}
	c.upstream.tx.end()
	multi := new(multiAnswer)
	err := c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: multi.record}})
	c.upstream.tx.open, c.upstream.tx.multi, c.upstream.tx.asking = true, multi, c.upstream.asking.on
	return err
}

// exec forwards EXEC. The transaction ends, whatever the server answers.
func (c *multiCommands) exec(r *request) error {
	changes, login := c.upstream.tx.changesState || c.upstream.tx.changesLogin, c.upstream.tx.changesLogin
	e := entry{kind: kindExec}
	if n := int64(c.upstream.tx.heldBytes); n > 0 { // hold the budget until the replies have been carried
		from := c.upstream.tx.account
		done := func() {}
		if c.upstream.life.Replies.TryAcquire(n) { // in Replies, a client waiting for the server is not watched for stalls
			from.Release(n)
			from = c.upstream.life.Replies
		} else {
			c.upstream.executing.Add(1)
			done = func() { c.upstream.executing.Add(-1) }
		}
		e.data = &entryData{after: func(answer) { from.Release(n); done() }}
		c.upstream.tx.heldBytes = 0
	}
	c.upstream.tx.end()
	err := c.upstream.forward(r, e)
	if changes && err == nil && !c.upstream.awaitReplies() {
		err = errSessionEnded
	}
	if login {
		c.user.invalidate()
	}
	return err
}

func (c *multiCommands) discard(r *request) error {
	c.upstream.tx.end()
	return c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: func(a answer) {
		if !a.isError() {
			c.upstream.pump.discard()
		}
	}}})
}

func (c *multiCommands) watch(r *request) error {
	if c.upstream.tx.open { // refused
		return c.upstream.forward(r, entry{})
	}
	watched := c.upstream.tx.watch.begin(c.upstream.state.database(), r.args[1:])
	return c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: func(a answer) {
		if a.isError() {
			watched.broken.Store(true)
		}
	}}})
}

func (c *multiCommands) unwatch(r *request) error {
	if !c.upstream.tx.open {
		c.upstream.tx.endWatch()
	}
	return c.upstream.forward(r, entry{})
}
