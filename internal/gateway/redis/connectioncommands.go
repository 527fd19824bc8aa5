package redis

import (
	"net"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

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
		// Commands queued behind it use another database, whose keys have not been examined.
		c.upstream.tx.selected, c.upstream.tx.changesState, c.upstream.tx.mayAddEnvelope = &database, true, true
	}
	return err
}

// client forwards CLIENT. It handles CLIENT REPLY itself: the gateway drops the replies that the client does not want.
func (c *loginCommands) client(r *request) error {
	if len(r.args) > 2 && resp.IsWord(r.args[1], "tracking") {
		return c.setTracking(r, resp.IsWord(r.args[2], "on"))
	}
	if c.upstream.isShared() && describesLibrary(r) {
		return c.upstream.replyWith([]byte("+OK\r\n")) // it describes a client that the server does not see
	}
	// The server refuses CLIENT REPLY to a RESP2 subscriber.
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
	if c.upstream.isShared() {
		if err := c.upstream.replyWith([]byte("+OK\r\n")); err != nil {
			return err
		}
		return net.ErrClosed
	}
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
	c.upstream.monitoring = false
	c.user.tracking.Store(false)
	c.user.sideConn.setReadOnly(false)
	c.user.invalidate()
	return nil
}
