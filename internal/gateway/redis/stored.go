package redis

// storedCommands run what works on stored values themselves, sealed ones among them: the server must meet
// the values as the client has written them. How each does it is in a file of its own.
type storedCommands struct {
	prober prober
	within within
	units  units
	guard  guard
	sorter sorter
}

func newStoredCommands(talk *conversation, user *user, stash *stash, inCluster bool) *storedCommands {
	c, vault := &storedCommands{}, stash.vault
	c.prober = prober{second: &user.second, stash: stash}
	c.within = within{talk: talk, user: user, vault: vault, prober: &c.prober}
	c.units = units{talk: talk, user: user, vault: vault, prober: &c.prober, within: &c.within}
	c.guard = guard{talk: talk, user: user, vault: vault, prober: &c.prober, units: &c.units}
	c.sorter = sorter{talk: talk, user: user, vault: vault, prober: &c.prober, inCluster: inCluster}
	return c
}

// run runs the request at hand. What its row does not tell how to run is run as what nobody knows.
func (c *storedCommands) run(r *request) error {
	return c.runAs(r, r.cmd.strategy, r)
}

// compare runs a SET that compares, with the arguments that take the place of its own.
func (c *storedCommands) compare(r *request, args [][]byte) error {
	return c.runAs(r, compared, &request{cmd: comparedSet, args: args})
}

// unknown runs a request whose row does not know its form.
func (c *storedCommands) unknown(r *request) error { return c.runAs(r, unknown, r) }

// runAs runs one in place of the request at hand.
func (c *storedCommands) runAs(hand *request, how strategy, r *request) error {
	c.prober.req = hand
	return c.prober.stash.release(c.by(how, r))
}

func (c *storedCommands) by(how strategy, r *request) error {
	switch how {
	case computed:
		return c.guard.computed(r)
	case inflated:
		return c.guard.inflated(r)
	case compared:
		return c.guard.compared(r)
	case floats:
		return c.guard.float(r)
	case scripts:
		return c.guard.script(r)
	case sorts:
		return c.sorter.sort(r)
	}
	return c.guard.unknown(r)
}
