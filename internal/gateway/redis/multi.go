package redis

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
