package redis

import (
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// loginCommands change as whom the client is logged in, and how it speaks: AUTH, HELLO, SELECT, CLIENT, QUIT, RESET.
type loginCommands struct {
	talk *conversation
	user *user
}

// auth watches AUTH [user] password.
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

// hello watches HELLO [version [AUTH user password] [SETNAME name]].
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
		c.talk.st.door.Pass() // strangers are refused, whatever else they ask for in it
		if who != nil {
			c.talk.st.who.Store(who)
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
		c.talk.tx.space, c.talk.tx.changes, c.talk.tx.brings = &space, true, true // the transaction goes on with other keys
	}
	return err
}

// client handles CLIENT REPLY itself: it drops the replies that the client does not want.
func (c *loginCommands) client(r *request) error {
	if len(r.args) > 2 && resp.IsWord(r.args[1], "tracking") {
		c.user.tracking = resp.IsWord(r.args[2], "on")
	}
	if len(r.args) != 3 || !resp.IsWord(r.args[1], "reply") || c.talk.subscribed() { // to a subscriber the server refuses it
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

// reset brings the connection back to its first state, unless the server refuses.
func (c *loginCommands) reset(r *request) error {
	c.talk.tx.end()
	c.talk.replies = muting{skip: c.talk.replies.skip} // RESET ends OFF, but a SKIP before it covers its answer
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
