package redis

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// control handles the commands that change the conversation itself.
type control struct {
	talk     *conversation
	st       *standing
	sub      *subscription
	tx       *transaction
	vault    *vault
	second   *second
	rights   *rights
	refusals *refusals
	indexes  *indexes
	scripts  *bodies
	view     topology
	out      *replyPump
	noDocs   bool // COMMAND DOCS is refused
	ended    func()
	handOver func() error // gives the rest of the connection to the server
	req      *request     // the one at hand
	ctx      context.Context

	monitors bool // MONITOR is on
}

// handlers are those of the commands that the table calls controls.
var handlers = map[string]func(*control, *request) error{
	"auth": (*control).auth, "hello": (*control).hello, "select": (*control).selectDB, "client": (*control).client,
	"quit": (*control).quit, "reset": (*control).reset,
	"multi": (*control).multi, "exec": (*control).exec, "discard": (*control).discard,
	"watch": (*control).watch, "unwatch": (*control).unwatch,
	"subscribe": (*control).subscribe, "psubscribe": (*control).subscribe, "ssubscribe": (*control).subscribe,
	"unsubscribe": (*control).unsubscribe, "punsubscribe": (*control).unsubscribe, "sunsubscribe": (*control).unsubscribe,
	"monitor": (*control).monitor, "replconf": (*control).replconf, "sync": (*control).replicate, "psync": (*control).replicate,
	"flushall": (*control).flush, "flushdb": (*control).flush, "function": (*control).flush, "script": (*control).script,
	"asking": (*control).asking, "readonly": (*control).readOnly, "readwrite": (*control).readOnly,
	"cluster": (*control).clusterCommand, "sentinel": (*control).sentinelCommand, "command": (*control).command,
	"ft.create": (*control).createIndex, "ft._createifnx": (*control).createIndex,
	"ft.dropindex": (*control).changeIndexes, "ft._dropindexifx": (*control).changeIndexes,
	"ft.drop": (*control).changeIndexes, "ft._dropifx": (*control).changeIndexes, "module": (*control).changeIndexes,
}

func (c *control) handle(r *request) error { return handlers[r.cmd.name](c, r) }

// auth watches AUTH [user] password.
func (c *control) auth(r *request) error {
	var who *credentials
	switch len(r.args) {
	case 2:
		who = &credentials{password: string(r.args[1])}
	case 3:
		who = &credentials{string(r.args[1]), string(r.args[2])}
	}
	c.rights.forget()
	c.tx.login = c.tx.open
	c.st.loggingIn.Add(1)
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if !a.isError() {
			c.st.who.Store(who)
			c.st.door.Pass()
		}
		c.st.loggingIn.Add(-1)
	}}})
}

// hello watches HELLO [version [AUTH user password] [SETNAME name]].
func (c *control) hello(r *request) error {
	who := helloCredentials(r.args)
	if who != nil {
		c.rights.forget()
	}
	if c.tx.open {
		c.tx.changes, c.tx.login = true, c.tx.login || who != nil
	}
	return c.talk.forwardAndWait(r, &op{after: func(a answer) {
		switch a.head {
		case resp.Map:
			c.st.version.Store(3)
		case resp.Array:
			c.st.version.Store(2)
		}
		if a.isError() {
			return
		}
		c.st.door.Pass() // strangers are refused, whatever else they ask for in it
		if who != nil {
			c.st.who.Store(who)
		}
	}})
}

// helloCredentials are the last that HELLO names, as for the server; nil for none, or where the
// server refuses it all.
func helloCredentials(args [][]byte) (who *credentials) {
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "auth") && i+2 < len(args):
			who = &credentials{string(args[i+1]), string(args[i+2])}
			i += 2
		case resp.IsWord(args[i], "setname") && i+1 < len(args):
			i++
		default:
			return nil
		}
	}
	return who
}

// selectDB waits for the answer: where the next request's values go depends on it. Inside
// MULTI it counts from EXEC on, and before for what is queued behind it.
func (c *control) selectDB(r *request) error {
	space := string(r.args[1])
	if n, ok := resp.ParseInt(r.args[1]); !ok || n < 0 {
		return c.talk.forward(r, entry{})
	}
	err := c.talk.forwardAndWait(r, &op{after: func(a answer) {
		if !a.isError() {
			c.st.space.Store(&space)
		}
	}})
	if c.tx.open {
		c.tx.space, c.tx.changes, c.tx.brings = &space, true, true // the transaction goes on with other keys
	}
	return err
}

// client handles CLIENT REPLY itself: it drops the replies that the client does not want.
func (c *control) client(r *request) error {
	if len(r.args) > 2 && resp.IsWord(r.args[1], "tracking") {
		c.rights.tracking = resp.IsWord(r.args[2], "on")
	}
	if resp.IsWord(r.args[1], "capa") {
		return c.capabilities(r)
	}
	if len(r.args) != 3 || !resp.IsWord(r.args[1], "reply") || c.sub.active() { // to a subscriber the server refuses it
		return c.talk.forward(r, entry{})
	}
	if c.tx.open {
		return c.talk.refuse("ERR cinch: CLIENT REPLY inside MULTI is not supported")
	}
	switch {
	case resp.IsWord(r.args[2], "off"):
		c.talk.replies.off = true
		return nil
	case resp.IsWord(r.args[2], "skip"):
		c.talk.replies.skipNext = !c.talk.replies.off
		return nil
	case resp.IsWord(r.args[2], "on"):
		c.talk.replies = muting{}
	}
	return c.talk.forward(r, entry{})
}

func (c *control) quit(r *request) error {
	c.tx.end()
	c.ended()
	return c.talk.forward(r, entry{})
}

// reset brings the connection back to its first state, unless the server refuses.
func (c *control) reset(r *request) error {
	c.tx.end()
	c.talk.replies = muting{skip: c.talk.replies.skip} // RESET ends OFF, but a SKIP before it covers its answer
	done := false
	err := c.talk.forwardAndWait(r, &op{after: func(a answer) {
		if a.isError() {
			return
		}
		done = true
		c.out.tx = nil
		c.out.messages.reset()
		c.st.version.Store(2)
		c.st.space.Store(&firstSpace)
		c.st.who.Store(nil)
		c.st.door.Shut()
	}})
	if err != nil || !done {
		return err
	}
	c.tx.endWatch()
	c.monitors = false
	c.rights.tracking = false
	c.second.setReadOnly(false)
	c.rights.forget()
	return nil
}

func (c *control) subscribe(r *request) error {
	c.sub.sent = !c.tx.open
	c.tx.changes = c.tx.open
	return c.talk.forward(r, entry{kind: kindSubscribe, op: &op{acks: len(r.args) - 1}})
}

func (c *control) unsubscribe(r *request) error {
	if len(r.args) > 1 {
		return c.talk.forward(r, entry{kind: kindSubscribe, op: &op{acks: len(r.args) - 1}})
	}
	return c.talk.forward(r, entry{kind: kindUnsubscribe, op: &op{class: r.args[0][0] | 0x20}})
}

// monitor: from its answer on, lines come that nobody asked for. Once there are, the server
// says nothing to another MONITOR.
func (c *control) monitor(r *request) error {
	if c.monitors && !c.tx.open {
		return nil
	}
	o := &op{}
	o.after = func(a answer) {
		c.out.messages.monitoring = c.out.messages.monitoring || !a.isError()
		o.answer.head = a.head
	}
	err := c.talk.forwardAndWait(r, o)
	c.monitors = c.monitors || err == nil && o.done != nil && !o.answer.isError()
	return err
}

// replconf: to what replicas tell of their progress the server says nothing.
func (c *control) replconf(r *request) error {
	for i := 1; i < len(r.args) && len(r.args)%2 == 1; i += 2 {
		switch {
		case !resp.IsWord(r.args[i], "ack") && !resp.IsWord(r.args[i], "getack"):
		case i > 1 || c.tx.open:
			return c.talk.refuse("ERR cinch: REPLCONF ACK and GETACK have no reply, so they come by themselves")
		default:
			return nil
		}
	}
	return c.talk.forward(r, entry{})
}

// replicate hands the connection over, unless the server refuses: a replica must see what
// is stored.
func (c *control) replicate(r *request) error {
	switch {
	case c.tx.open:
		return c.talk.forward(r, entry{}) // refused
	case c.monitors:
		return nil // by the server, too
	}
	o := &op{done: make(chan struct{})}
	if err := c.talk.forward(r, entry{kind: kindRaw, op: o}); err != nil {
		return err
	}
	if err := c.talk.await(o); err != nil || o.answer.isError() {
		return err
	}
	return c.handOver()
}

// flush watches the commands that may remove dictionaries or search indexes.
func (c *control) flush(r *request) error {
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(answer) {
		c.indexes.kick()
		if c.vault.dicts != nil {
			c.vault.dicts.Kick()
		}
	}}})
}

func (c *control) command(r *request) error {
	if c.noDocs && len(r.args) > 1 && resp.IsWord(r.args[1], "docs") {
		return c.talk.refuse("ERR unknown subcommand 'DOCS'")
	}
	return c.talk.forward(r, entry{})
}

// script watches SCRIPT LOAD, EXISTS and FLUSH. What another gateway's clients flush stays
// known here.
func (c *control) script(r *request) error {
	var after func(answer)
	switch {
	case len(r.args) == 3 && resp.IsWord(r.args[1], "load"):
		text := bytes.Clone(r.args[2])
		after = func(a answer) {
			if !a.isError() {
				c.scripts.learn(text)
			}
		}
		if c.tx.open { // EVALSHA may be queued behind it
			c.scripts.learn(text)
		}
	case resp.IsWord(r.args[1], "flush"):
		after = func(answer) { c.scripts.forget() }
	case resp.IsWord(r.args[1], "exists") && !c.vault.rules().SealsNothing():
		return c.talk.forward(r, entry{kind: kindLoaded, op: c.loaded(r.args[2:])})
	default:
		return c.talk.forward(r, entry{})
	}
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: after, size: len(r.args[len(r.args)-1])}})
}

// createIndex runs FT.CREATE: nothing is sealed under the index from now on, and what is sealed there
// is put back first, so that the index finds it.
func (c *control) createIndex(r *request) error {
	if !c.talk.settle() { // it may be logging in
		return errGone
	}
	if c.second.refusedAtOnce(c.req.args) {
		return c.talk.forward(r, entry{})
	}
	x := c.indexes
	prefixes := indexedPrefixes(r.args)
	prefixes = slices.DeleteFunc(prefixes, x.known)
	x.announce(prefixes)
	if len(prefixes) > 0 && !c.tx.open && c.st.where() == firstSpace && c.vault.sealsHashes() {
		if refusal := c.clearFor(prefixes); refusal != "" {
			return c.talk.refuse(refusal)
		}
	}
	return c.changeIndexes(r)
}

// changeIndexes runs a command after which the server's indexes may be others.
func (c *control) changeIndexes(r *request) error {
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(answer) { c.indexes.kick() }}})
}

// clearFor has sealed fields put back under prefixes, as the gateway's own user or, where that lacks
// a right, as the client. It returns why the index must not be created yet.
func (c *control) clearFor(prefixes []string) (refusal string) {
	deadline := time.Now().Add(indexPatience)
	for _, p := range prefixes {
		err := c.awaitSweep(c.indexes.clear(p, nil), deadline)
		if err != nil && isNoRight(err.Error()) {
			who := c.st.who.Load()
			if who == nil {
				who = &credentials{}
			}
			theirs := c.second.dialer.as(who, firstSpace, false)
			err = c.awaitSweep(c.indexes.clear(p, theirs), deadline)
			_ = theirs.Close()
		}
		if err != nil {
			return fmt.Sprintf("ERR cinch: hashes under %q may hold sealed fields, which an index can't read: %v; try again, or run cinch unpack --key '%s' first", p, err, storeredis.PrefixPattern(p))
		}
	}
	return ""
}

// awaitSweep waits for a sweep, which goes on when the client does not wait.
func (c *control) awaitSweep(w *sweep, deadline time.Time) error {
	for {
		select {
		case <-w.done:
			return w.err
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(patience):
			if time.Now().After(deadline) {
				return errSweeping
			}
			if gateway.PeerClosed(c.talk.client) {
				return errGone
			}
		}
	}
}

// clusterCommand rewrites the addresses in what CLUSTER answers.
func (c *control) clusterCommand(r *request) error {
	if !inCluster(c.view) {
		return c.talk.forward(r, entry{})
	}
	for _, sub := range [...]string{"slots", "shards", "nodes", "replicas", "slaves"} {
		if resp.IsWord(r.args[1], sub) {
			return c.talk.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return c.talk.forward(r, entry{})
}

// capabilities passes CLIENT CAPA on. A client that can be redirected by a replica is not where no
// gateway is known for the primary: it would go past the gateways, and read envelopes. The replica
// serves it then as any other client.
func (c *control) capabilities(r *request) error {
	if c.view != nil {
		return c.talk.forward(r, entry{})
	}
	args := append([][]byte(nil), r.args...)
	for i := 2; i < len(args); i++ {
		if resp.IsWord(args[i], "redirect") {
			args[i] = []byte("none") // the server passes over what it does not know
		}
	}
	return c.talk.forward(&request{cmd: r.cmd, args: args}, entry{})
}

// sentinelCommand rewrites the addresses in what a Sentinel answers.
func (c *control) sentinelCommand(r *request) error {
	if !ofSentinels(c.view) {
		return c.talk.forward(r, entry{})
	}
	if resp.IsWord(r.args[1], "replicas") || resp.IsWord(r.args[1], "slaves") {
		return c.talk.forward(r, entry{kind: kindCluster, op: &op{text: "replicas of"}})
	}
	for _, sub := range [...]string{"get-master-addr-by-name", "master", "masters", "sentinels"} {
		if resp.IsWord(r.args[1], sub) {
			return c.talk.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return c.talk.forward(r, entry{})
}

func (c *control) asking(r *request) error {
	c.talk.asks.next = !c.tx.open
	return c.talk.forward(r, entry{})
}

// readOnly watches READONLY and READWRITE: a client may read from a replica, and so must the
// second connection.
func (c *control) readOnly(r *request) error {
	c.second.setReadOnly(resp.IsWord(r.args[0], "readonly"))
	return c.talk.forward(r, entry{})
}

// loaded is what becomes of the answer to SCRIPT EXISTS: only scripts that are known here are said
// to exist.
func (c *control) loaded(shas [][]byte) *op {
	o := &op{mask: make([]bool, len(shas)), size: len(shas)}
	for i, sha := range shas {
		_, o.mask[i] = c.scripts.find(sha)
	}
	return o
}

func (c *control) multi(r *request) error {
	if c.tx.open && !c.talk.settle() { // whether there is one
		return errGone
	}
	if c.tx.open && !c.tx.refused.Load() {
		return c.talk.forward(r, entry{})
	}
	c.tx.end()
	refused := new(atomic.Bool)
	err := c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) { refused.Store(a.isError()) }}})
	c.tx.open, c.tx.refused, c.tx.asking = true, refused, c.talk.asks.on
	return err
}

// exec: whatever the server answers, the transaction is over, unless there was none.
func (c *control) exec(r *request) error {
	changes, login := c.tx.changes || c.tx.login, c.tx.login
	e := entry{kind: kindExec}
	if n := int64(c.tx.queued); n > 0 { // until its replies have been carried
		from := c.tx.account
		if c.talk.account.TryAcquire(n) { // where no client is judged that waits for the server
			from.Release(n)
			from = c.talk.account
		}
		e.op = &op{after: func(answer) { from.Release(n) }}
		c.tx.queued = 0
	}
	c.tx.end()
	err := c.talk.forward(r, e)
	if changes && err == nil && !c.talk.settle() {
		err = errGone
	}
	if login {
		c.rights.forget()
	}
	return err
}

func (c *control) discard(r *request) error {
	c.tx.end()
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if !a.isError() {
			c.out.tx = nil
		}
	}}})
}

func (c *control) watch(r *request) error {
	if c.tx.open { // refused
		return c.talk.forward(r, entry{})
	}
	c.tx.watch.on = true
	c.tx.watch.add(c.st.where(), r.args[1:])
	broken := c.tx.watch.broken
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if a.isError() {
			broken.Store(true)
		}
	}}})
}

func (c *control) unwatch(r *request) error {
	if !c.tx.open {
		c.tx.endWatch()
	}
	return c.talk.forward(r, entry{})
}
