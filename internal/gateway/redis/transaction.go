package redis

import (
	"bytes"
	"sync/atomic"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// transaction is what the request pump knows of the client's MULTI.
type transaction struct {
	multi   *multiAnswer     // set while it is open
	account *gateway.Account // takes bytes
	known   []lua.Known      // values sealed for SETs that are queued: a later command in the same transaction may need them back
	bytes   int              // of them, held of the budget
	entries int              // bytes of what is queued for EXEC
	queued  int              // of the budget, for that
	space   *string          // selected in the transaction
	open    bool
	changes bool // EXEC changes what the next request depends on
	login   bool // as whom the client is logged in, too
	asking  bool // ASKING came before it, and holds for all of it
	brings  bool // something that was queued before the current command may bring a sealed value to any key

	lastBrings bool // the command that was queued last may; brings takes it over with the next one

	watch watching
}

// multiAnswer is what the server has said to MULTI, in the reply pump.
type multiAnswer struct {
	came    atomic.Bool
	refused atomic.Bool // there is no transaction after all
}

func (m *multiAnswer) take(a answer) {
	m.refused.Store(a.isError())
	m.came.Store(true)
}

// answersAtOnce reports that the server queues whatever comes now: what it may have been blocked on, in front of
// MULTI, is over.
func (t *transaction) answersAtOnce() bool {
	return t.open && t.multi.came.Load() && !t.multi.refused.Load()
}

// maxTransactionBytes bounds what the replies to one transaction take in memory here.
const maxTransactionBytes = 16 << 20

// maxRemembered bounds, in bytes, what is kept of a transaction. Beyond it a command that
// computes on a value set earlier in the same transaction answers with an error.
const maxRemembered = 1 << 20

// endsTransaction has the commands after which nothing is queued any more. No bound refuses them.
var endsTransaction = map[string]bool{"exec": true, "discard": true, "reset": true, "quit": true}

func (t *transaction) remember(sealed, value []byte) {
	n := len(sealed) + len(value)
	if t.bytes+n > maxRemembered || !t.account.TryAcquire(int64(n)) {
		return
	}
	t.bytes += n
	t.known = append(t.known, lua.Known{Sealed: bytes.Clone(sealed), Value: bytes.Clone(value)})
}

// fits takes memory for what is queued for EXEC, but for the first bytes. It reports whether there was some.
func (t *transaction) fits() bool {
	for t.entries > freeQueueBytes+t.queued {
		if !t.account.TryAcquire(queuePieceBytes) {
			return false
		}
		t.queued += queuePieceBytes
	}
	return true
}

// end ends MULTI, and with it WATCH.
func (t *transaction) end() {
	if t.open && !t.multi.refused.Load() {
		t.endWatch()
	}
	t.account.Release(int64(t.bytes + t.queued))
	*t = transaction{account: t.account, watch: t.watch}
}

func (t *transaction) endWatch() { t.watch = watching{} }

// watching is what the client watches. As long as nothing that a transaction meets can have changed
// since it was looked at, what was found then is true for EXEC.
type watching struct {
	on   bool // until EXEC, DISCARD or UNWATCH
	keys *watchedKeys
}

// watchedKeys are remembered with their databases in front.
type watchedKeys struct {
	all    map[string]bool
	bytes  int
	broken atomic.Bool // the server has refused a WATCH, or there were too many keys
}

// maxWatchedBytes bounds the keys that are remembered.
const maxWatchedBytes = 64 << 10

// begin watches more keys.
func (w *watching) begin(space string, keys [][]byte) *watchedKeys {
	w.on = true
	if w.keys == nil {
		w.keys = &watchedKeys{all: map[string]bool{}}
	}
	w.keys.add(space, keys)
	return w.keys
}

func (w *watchedKeys) add(space string, keys [][]byte) {
	for _, k := range keys {
		if w.bytes += len(space) + 1 + len(k); w.bytes > maxWatchedBytes {
			w.broken.Store(true)
			return
		}
		w.all[space+"/"+string(k)] = true
	}
}

// covers reports that all of the keys are watched; the server's answers must have come.
func (w *watching) covers(space string, keys [][]byte) bool {
	if w.keys == nil || w.keys.broken.Load() {
		return false
	}
	for _, k := range keys {
		if !w.keys.all[space+"/"+string(k)] {
			return false
		}
	}
	return true
}

// multiCommands open and end the client's transaction: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
type multiCommands struct {
	talk *conversation
	user *user
}

func (c *multiCommands) multi(r *request) error {
	if c.talk.tx.open && !c.talk.settle() { // whether there is one
		return errGone
	}
	if c.talk.tx.open && !c.talk.tx.multi.refused.Load() {
		return c.talk.forward(r, entry{})
	}
	c.talk.tx.end()
	multi := new(multiAnswer)
	err := c.talk.forward(r, entry{kind: kindHook, op: &op{after: multi.take}})
	c.talk.tx.open, c.talk.tx.multi, c.talk.tx.asking = true, multi, c.talk.asks.on
	return err
}

// exec: whatever the server answers, the transaction is over, unless there was none.
func (c *multiCommands) exec(r *request) error {
	changes, login := c.talk.tx.changes || c.talk.tx.login, c.talk.tx.login
	e := entry{kind: kindExec}
	if n := int64(c.talk.tx.queued); n > 0 { // until its replies have been carried
		from := c.talk.tx.account
		done := func() {}
		if c.talk.life.Replies.TryAcquire(n) { // where no client is judged that waits for the server
			from.Release(n)
			from = c.talk.life.Replies
		} else {
			c.talk.executing.Add(1)
			done = func() { c.talk.executing.Add(-1) }
		}
		e.op = &op{after: func(answer) { from.Release(n); done() }}
		c.talk.tx.queued = 0
	}
	c.talk.tx.end()
	err := c.talk.forward(r, e)
	if changes && err == nil && !c.talk.settle() {
		err = errGone
	}
	if login {
		c.user.forget()
	}
	return err
}

func (c *multiCommands) discard(r *request) error {
	c.talk.tx.end()
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if !a.isError() {
			c.talk.pump.discard()
		}
	}}})
}

func (c *multiCommands) watch(r *request) error {
	if c.talk.tx.open { // refused
		return c.talk.forward(r, entry{})
	}
	watched := c.talk.tx.watch.begin(c.talk.st.where(), r.args[1:])
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if a.isError() {
			watched.broken.Store(true)
		}
	}}})
}

func (c *multiCommands) unwatch(r *request) error {
	if !c.talk.tx.open {
		c.talk.tx.endWatch()
	}
	return c.talk.forward(r, entry{})
}

// A value that begins with the magic is wrapped when it is written, or it would be opened when it is
// read. There are two places where the gateway does not see all that is written: in keys that are
// excluded, where APPEND, SETBIT and the like are not guarded, and in scripts.
//
// Excluded keys are promised to hold no envelopes. So what looks like one there and is none passes as
// it is, in both directions: a bitmap that happens to begin with the magic works as any other. Only
// bytes that are an envelope indeed are wrapped by SET and its kin, and opened by GET; a client that
// makes such bytes out of parts in an excluded key gets what is inside, and that is counted.

// So it is with hashes that a search index covers: a vector may begin with any bytes.

// echoing is the entry of a script's reply. What the script was given it may return: an
// element that is a part of an argument, or of a value that was put back, is no envelope of ours.
func (t *transaction) echoing(r *request, parts []part) entry {
	e := entry{shape: r.cmd.reply}
	if plain := t.lookalikes(r, parts); plain != nil {
		e.op = &op{plainBytes: plain}
	}
	return e
}

// lookalikes are the plain bytes known to a request that hold the magic: its arguments, which are
// copied, and, where they begin with it, values that are put back for it or were set before it in
// the same transaction.
func (t *transaction) lookalikes(r *request, parts []part) (plain [][]byte) {
	for _, a := range r.args {
		if bytes.Contains(a, []byte(cinch.Magic)) {
			plain = append(plain, bytes.Clone(a))
		}
	}
	for i := range parts {
		if cinch.IsSealed(parts[i].Value) {
			plain = append(plain, parts[i].Value)
		}
	}
	for i := range t.known {
		if cinch.IsSealed(t.known[i].Value) {
			plain = append(plain, t.known[i].Value)
		}
	}
	return plain
}

// leavesMagic reports that the command may leave a plain value that begins with the
// magic, which must not stay so where the user may run the script that wraps it.
func (t *transaction) leavesMagic(r *request, parts []part) bool {
	return !r.unguarded && r.cmd.strategy != compared && (r.cmd.writes || t.lookalikes(r, parts) != nil)
}

// escapeArgs makes a call of lua.Escape. All sealed strings of the keys have been put
// back, so whatever begins with the magic now is plain.
func (t *transaction) escapeArgs(r *request, keys [][]byte, parts []part) [][]byte {
	return lua.CallEscape(keys, t.lookalikes(r, parts))
}
