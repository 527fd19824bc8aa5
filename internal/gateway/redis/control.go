package redis

import (
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// control handles the commands that change the state of the connection, in one type for each subject.
type control struct {
	loginCommands
	multiCommands
	feedCommands
	nodeCommands
	scriptCommands
	indexCommands

	cfg *Config // the gateway's
}

func (c *control) init(g *Gateway, talk *conversation, user *user, rest handing) {
	c.loginCommands = loginCommands{talk: talk, user: user}
	c.multiCommands = multiCommands{talk: talk, user: user}
	c.feedCommands = feedCommands{talk: talk, rest: rest}
	c.nodeCommands = nodeCommands{talk: talk, user: user, view: g.cfg.view}
	c.scriptCommands = scriptCommands{talk: talk, user: user, vault: g.vault}
	c.indexCommands = indexCommands{talk: talk, user: user, vault: g.vault, indexes: g.indexes}
	c.cfg = &g.cfg
}

// handlers are the methods for the commands with the strategy controls.
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
	resp.GatewayCommand: (*control).gateway,
}

func (c *control) handle(r *request) error { return handlers[r.cmd.name](c, r) }

// client handles CLIENT, whose subcommands belong to two subjects.
func (c *control) client(r *request) error {
	if resp.IsWord(r.args[1], "capa") {
		return c.capabilities(r)
	}
	return c.loginCommands.client(r)
}

func (c *control) command(r *request) error {
	if c.cfg.NoCommandDocs && len(r.args) > 1 && resp.IsWord(r.args[1], "docs") {
		return c.scriptCommands.talk.refuse("ERR unknown subcommand 'DOCS'")
	}
	return c.scriptCommands.talk.forward(r, entry{})
}

// gateway answers the command by which Cinch's commands detect a gateway: they must connect to the server
// itself. If the server requires a login, only clients that have logged in are told what is behind.
func (c *control) gateway(r *request) error {
	talk := c.scriptCommands.talk
	if talk.tx.open || talk.subscribed() {
		return talk.forward(r, entry{}) // the server refuses it
	}
	behind := c.cfg.Behind
	if talk.isStranger() {
		behind = ""
	}
	return talk.answer(resp.AppendGateway(nil, c.cfg.Name, behind))
}

// loginCommands change the client's login, database and protocol: AUTH, HELLO, SELECT, CLIENT, QUIT, RESET.
type loginCommands struct {
	talk *conversation
	user *user
}

// auth forwards AUTH [user] password and records the login.
func (c *loginCommands) auth(r *request) error {
	var who *credentials
	switch len(r.args) {
	case 2:
		who = &credentials{password: string(r.args[1])}
	case 3:
		who = &credentials{string(r.args[1]), string(r.args[2])}
	}
	c.user.forget()
	c.talk.tx.login = c.talk.tx.open
	c.talk.st.loggingIn.Add(1)
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if !a.isError() {
			c.talk.st.who.Store(who)
			c.talk.st.door.Pass()
		}
		c.talk.st.loggingIn.Add(-1)
	}}})
}

// hello forwards HELLO [version [AUTH user password] [SETNAME name]] and records version and login.
func (c *loginCommands) hello(r *request) error {
	who := helloCredentials(r.args)
	if who != nil {
		c.user.forget()
	}
	if c.talk.tx.open {
		c.talk.tx.changes, c.talk.tx.login = true, c.talk.tx.login || who != nil
	}
	return c.talk.forwardAndWait(r, &op{after: func(a answer) {
		switch a.head {
		case resp.Map:
			c.talk.st.version.Store(3)
		case resp.Array:
			c.talk.st.version.Store(2)
		}
		if a.isError() {
			return
		}
		c.talk.st.door.Pass() // the server refuses HELLO without a login, whatever its other options
		if who != nil {
			c.talk.st.who.Store(who)
		}
	}})
}

// helloCredentials returns the last credentials in HELLO, as the server uses them; nil if there are none or
// the server refuses the options.
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

// selectDB waits for the answer, which decides where the next request's values go. Inside MULTI the new
// database applies from EXEC on, and before that to the commands queued behind SELECT.
func (c *loginCommands) selectDB(r *request) error {
	space := string(r.args[1])
	if n, ok := resp.ParseInt(r.args[1]); !ok || n < 0 {
		return c.talk.forward(r, entry{})
	}
	err := c.talk.forwardAndWait(r, &op{after: func(a answer) {
		if !a.isError() {
			c.talk.st.space.Store(&space)
		}
	}})
	if c.talk.tx.open {
		// The commands queued next use other keys.
		c.talk.tx.space, c.talk.tx.changes, c.talk.tx.brings = &space, true, true
	}
	return err
}

// client handles CLIENT REPLY itself: it drops the replies that the client does not want.
func (c *loginCommands) client(r *request) error {
	if len(r.args) > 2 && resp.IsWord(r.args[1], "tracking") {
		c.user.tracking = resp.IsWord(r.args[2], "on")
	}
	// To a subscriber the server refuses CLIENT REPLY.
	if len(r.args) != 3 || !resp.IsWord(r.args[1], "reply") || c.talk.subscribed() {
		return c.talk.forward(r, entry{})
	}
	if c.talk.tx.open {
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

func (c *loginCommands) quit(r *request) error {
	c.talk.tx.end()
	c.talk.life.End()
	return c.talk.forward(r, entry{})
}

// reset resets the state of the connection, unless the server refuses RESET.
func (c *loginCommands) reset(r *request) error {
	c.talk.tx.end()
	c.talk.replies = muting{skip: c.talk.replies.skip} // RESET ends OFF, but a SKIP before it applies to its answer
	done := false
	err := c.talk.forwardAndWait(r, &op{after: func(a answer) {
		if a.isError() {
			return
		}
		done = true
		c.talk.pump.reset()
		c.talk.st.version.Store(2)
		c.talk.st.space.Store(&firstSpace)
		c.talk.st.who.Store(nil)
		c.talk.st.door.Shut()
	}})
	if err != nil || !done {
		return err
	}
	c.talk.tx.endWatch()
	c.talk.st.monitors = false
	c.user.tracking = false
	c.user.second.setReadOnly(false)
	c.user.forget()
	return nil
}

// feedCommands make the server send by itself: subscriptions, MONITOR and replication.
type feedCommands struct {
	talk *conversation
	rest handing
}

// handing passes the rest of the connection to the server.
type handing interface{ handOver() error }

func (c *feedCommands) subscribe(r *request) error {
	c.talk.subscribing = !c.talk.tx.open
	c.talk.tx.changes = c.talk.tx.open
	return c.talk.forward(r, entry{kind: kindSubscribe, op: &op{acks: len(r.args) - 1}})
}

func (c *feedCommands) unsubscribe(r *request) error {
	if len(r.args) > 1 {
		return c.talk.forward(r, entry{kind: kindSubscribe, op: &op{acks: len(r.args) - 1}})
	}
	return c.talk.forward(r, entry{kind: kindUnsubscribe, op: &op{class: r.args[0][0] | 0x20}})
}

// monitor forwards MONITOR. After its answer the server sends lines that answer no request, and it does not
// answer another MONITOR.
func (c *feedCommands) monitor(r *request) error {
	if c.talk.st.monitors && !c.talk.tx.open {
		return nil
	}
	o := &op{}
	o.after = func(a answer) {
		if !a.isError() {
			c.talk.pump.monitor()
		}
		o.answer.head = a.head
	}
	err := c.talk.forwardAndWait(r, o)
	c.talk.st.monitors = c.talk.st.monitors || err == nil && o.done != nil && !o.answer.isError()
	return err
}

// replconf forwards REPLCONF, except the forms that the server does not answer.
func (c *feedCommands) replconf(r *request) error {
	for i := 1; i < len(r.args) && len(r.args)%2 == 1; i += 2 {
		switch {
		case !resp.IsWord(r.args[i], "ack") && !resp.IsWord(r.args[i], "getack"):
		case i > 1 || c.talk.tx.open:
			return c.talk.refuse("ERR cinch: REPLCONF ACK and GETACK have no reply, so send them alone and outside MULTI")
		default:
			return nil
		}
	}
	return c.talk.forward(r, entry{})
}

// replicate hands the connection over, unless the server refuses: a replica must see the stored bytes.
func (c *feedCommands) replicate(r *request) error {
	switch {
	case c.talk.tx.open:
		return c.talk.forward(r, entry{}) // refused
	case c.talk.st.monitors:
		return nil // the server does not answer either
	}
	o := &op{done: make(chan struct{})}
	if err := c.talk.forward(r, entry{kind: kindRaw, op: o}); err != nil {
		return err
	}
	if err := c.talk.await(o); err != nil || o.answer.isError() {
		return err
	}
	return c.rest.handOver()
}
