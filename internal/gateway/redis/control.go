package redis

import (
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// control handles commands that change the state of the connection, with one type for each subject.
type control struct {
	loginCommands
	multiCommands
	feedCommands
	nodeCommands
	scriptCommands
	indexCommands

	cfg *Config // the gateway's
}

func (c *control) init(g *Gateway, upstream *upstreamWriter, user *user, relay relayer) {
	c.loginCommands = loginCommands{upstream: upstream, user: user}
	c.multiCommands = multiCommands{upstream: upstream, user: user}
	c.feedCommands = feedCommands{upstream: upstream, relay: relay}
	c.nodeCommands = nodeCommands{upstream: upstream, user: user, view: g.cfg.view}
	c.scriptCommands = scriptCommands{upstream: upstream, user: user, codec: g.codec}
	c.indexCommands = indexCommands{upstream: upstream, user: user, codec: g.codec, indexes: g.indexes}
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
		return c.scriptCommands.upstream.refuse("ERR unknown subcommand 'DOCS'")
	}
	return c.scriptCommands.upstream.forward(r, entry{})
}

// gateway answers the command by which Cinch's commands detect a gateway: they must connect to the server
// itself. If the server requires a login, only clients that have logged in are told its URL.
func (c *control) gateway(r *request) error {
	upstream := c.scriptCommands.upstream
	if upstream.tx.open || upstream.isSubscriber() {
		return upstream.forward(r, entry{}) // the server refuses it
	}
	behind := c.cfg.UpstreamURL
	if upstream.isUnauthenticated() {
		behind = ""
	}
	return upstream.replyWith(resp.AppendGateway(nil, c.cfg.Name, behind))
}

// loginCommands handles commands that change the client's login, database and protocol: AUTH, HELLO, SELECT, CLIENT,
// QUIT, RESET.
type loginCommands struct {
	upstream *upstreamWriter
	user     *user
}

// auth forwards AUTH [user] password and records the login.
func (c *loginCommands) auth(r *request) error {
	var login *credentials
	switch len(r.args) {
	case 2:
		login = &credentials{password: string(r.args[1])}
	case 3:
		login = &credentials{string(r.args[1]), string(r.args[2])}
	}
	c.user.invalidate()
	c.upstream.tx.changesLogin = c.upstream.tx.open
	c.upstream.state.pendingLogins.Add(1)
	return c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: func(a answer) {
		if !a.isError() {
			c.upstream.state.credentials.Store(login)
			c.upstream.state.auth.Open()
		}
		c.upstream.state.pendingLogins.Add(-1)
	}}})
}

// hello forwards HELLO [version [AUTH user password] [SETNAME name]] and records version and login.
func (c *loginCommands) hello(r *request) error {
	login := helloCredentials(r.args)
	if login != nil {
		c.user.invalidate()
	}
	if c.upstream.tx.open {
		c.upstream.tx.changesState, c.upstream.tx.changesLogin = true, c.upstream.tx.changesLogin || login != nil
	}
	return c.upstream.forwardAndWait(r, &entryData{after: func(a answer) {
		switch a.head {
		case resp.Map:
			c.upstream.state.version.Store(3)
		case resp.Array:
			c.upstream.state.version.Store(2)
		}
		if a.isError() {
			return
		}
		c.upstream.state.auth.Open() // the server refuses HELLO without a login, whatever its other options
		if login != nil {
			c.upstream.state.credentials.Store(login)
		}
	}})
}

// helloCredentials returns the last credentials in HELLO, as the server uses them; nil if there are none or
// the server refuses the options.
func helloCredentials(args [][]byte) (login *credentials) {
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "auth") && i+2 < len(args):
			login = &credentials{string(args[i+1]), string(args[i+2])}
			i += 2
		case resp.IsWord(args[i], "setname") && i+1 < len(args):
			i++
		default:
			return nil
		}
	}
	return login
}

// selectDB waits for the answer, which decides where the next request's values go. Inside MULTI the new
// database applies from EXEC on, and before that to the commands queued behind SELECT.
func (c *loginCommands) selectDB(r *request) error {
	database := string(r.args[1])
	if n, ok := resp.ParseInt(r.args[1]); !ok || n < 0 {
		return c.upstream.forward(r, entry{})
	}
	err := c.upstream.forwardAndWait(r, &entryData{after: func(a answer) {
		if !a.isError() {
			c.upstream.state.selected.Store(&database)
		}
	}})
	if c.upstream.tx.open {
		// The commands queued next use other keys.
		c.upstream.tx.selected, c.upstream.tx.changesState, c.upstream.tx.mayAddEnvelope = &database, true, true
	}
	return err
}

// client handles CLIENT REPLY itself: it drops the replies that the client does not want.
func (c *loginCommands) client(r *request) error {
	if len(r.args) > 2 && resp.IsWord(r.args[1], "tracking") {
		return c.setTracking(r, resp.IsWord(r.args[2], "on"))
	}
	// To a subscriber the server refuses CLIENT REPLY.
	if len(r.args) != 3 || !resp.IsWord(r.args[1], "reply") || c.upstream.isSubscriber() {
		return c.upstream.forward(r, entry{})
	}
	if c.upstream.tx.open {
		return c.upstream.refuse("ERR cinch: CLIENT REPLY inside MULTI is not supported")
	}
	switch {
	case resp.IsWord(r.args[2], "off"):
		c.upstream.clientReply.off = true
		return nil
	case resp.IsWord(r.args[2], "skip"):
		c.upstream.clientReply.skipNext = !c.upstream.clientReply.off
		return nil
	case resp.IsWord(r.args[2], "on"):
		c.upstream.clientReply = clientReply{}
	}
	return c.upstream.forward(r, entry{})
}

// setTracking forwards CLIENT TRACKING and waits for the answer, which decides how the next request's values are read.
// Inside MULTI the answer comes with EXEC, if at all.
func (c *loginCommands) setTracking(r *request, on bool) error {
	c.upstream.tx.changesState = c.upstream.tx.open
	return c.upstream.forwardAndWait(r, &entryData{after: func(a answer) {
		if !a.isError() {
			c.user.tracking.Store(on)
		}
	}})
}

func (c *loginCommands) quit(r *request) error {
	c.upstream.tx.end()
	c.upstream.life.End()
	return c.upstream.forward(r, entry{})
}

// reset resets the state of the connection, unless the server refuses RESET.
func (c *loginCommands) reset(r *request) error {
	c.upstream.tx.end()
	c.upstream.clientReply = clientReply{skip: c.upstream.clientReply.skip} // RESET ends OFF, but a SKIP before it applies to its answer
	done := false
	err := c.upstream.forwardAndWait(r, &entryData{after: func(a answer) {
		if a.isError() {
			return
		}
		done = true
		c.upstream.pump.reset()
		c.upstream.state.version.Store(2)
		c.upstream.state.selected.Store(&defaultDatabase)
		c.upstream.state.credentials.Store(nil)
		c.upstream.state.auth.Reset()
	}})
	if err != nil || !done {
		return err
	}
	c.upstream.tx.endWatch()
	c.upstream.state.monitoring = false
	c.user.tracking.Store(false)
	c.user.sideConn.setReadOnly(false)
	c.user.invalidate()
	return nil
}

// feedCommands handles commands after which the server sends frames that answer no request: subscriptions, MONITOR
// and replication.
type feedCommands struct {
	upstream *upstreamWriter
	relay    relayer
}

// relayer relays the rest of the connection to the server.
type relayer interface{ relayRest() error }

func (c *feedCommands) subscribe(r *request) error {
	c.upstream.subscribing = !c.upstream.tx.open
	c.upstream.tx.changesState = c.upstream.tx.open
	return c.upstream.forward(r, entry{kind: kindSubscribe, data: &entryData{acks: len(r.args) - 1}})
}

func (c *feedCommands) unsubscribe(r *request) error {
	if len(r.args) > 1 {
		return c.upstream.forward(r, entry{kind: kindSubscribe, data: &entryData{acks: len(r.args) - 1}})
	}
	return c.upstream.forward(r, entry{kind: kindUnsubscribe, data: &entryData{class: r.args[0][0] | 0x20}})
}

// monitor forwards MONITOR. After its answer the server sends lines that answer no request, and it does not
// answer another MONITOR.
func (c *feedCommands) monitor(r *request) error {
	if c.upstream.state.monitoring && !c.upstream.tx.open {
		return nil
	}
	o := &entryData{}
	o.after = func(a answer) {
		if !a.isError() {
			c.upstream.pump.monitor()
		}
		o.answer.head = a.head
	}
	err := c.upstream.forwardAndWait(r, o)
	c.upstream.state.monitoring = c.upstream.state.monitoring || err == nil && o.done != nil && !o.answer.isError()
	return err
}

// replconf forwards REPLCONF, except the forms that the server does not answer.
func (c *feedCommands) replconf(r *request) error {
	for i := 1; i < len(r.args) && len(r.args)%2 == 1; i += 2 {
		switch {
		case !resp.IsWord(r.args[i], "ack") && !resp.IsWord(r.args[i], "getack"):
		case i > 1 || c.upstream.tx.open:
			return c.upstream.refuse("ERR cinch: REPLCONF ACK and GETACK have no reply, so send them alone and outside MULTI")
		default:
			return nil
		}
	}
	return c.upstream.forward(r, entry{})
}

// replicate relays the connection unchanged from here on, unless the server refuses: a replica must see the stored
// bytes.
func (c *feedCommands) replicate(r *request) error {
	switch {
	case c.upstream.tx.open:
		return c.upstream.forward(r, entry{}) // refused
	case c.upstream.state.monitoring:
		return nil // the server does not answer either
	}
	o := &entryData{done: make(chan struct{})}
	if err := c.upstream.forward(r, entry{kind: kindRaw, data: o}); err != nil {
		return err
	}
	if err := c.upstream.await(o); err != nil || o.answer.isError() {
		return err
	}
	return c.relay.relayRest()
}
