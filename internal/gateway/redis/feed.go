package redis

import (
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// feedCommands have the server speak by itself: subscriptions, MONITOR and replication.
type feedCommands struct {
	talk *conversation
	rest handing
}

// handing gives the rest of the connection to the server.
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

// monitor: from its answer on, lines come that nobody asked for. Once there are, the server
// says nothing to another MONITOR.
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

// replconf: to what replicas tell of their progress the server says nothing.
func (c *feedCommands) replconf(r *request) error {
	for i := 1; i < len(r.args) && len(r.args)%2 == 1; i += 2 {
		switch {
		case !resp.IsWord(r.args[i], "ack") && !resp.IsWord(r.args[i], "getack"):
		case i > 1 || c.talk.tx.open:
			return c.talk.refuse("ERR cinch: REPLCONF ACK and GETACK have no reply, so they come by themselves")
		default:
			return nil
		}
	}
	return c.talk.forward(r, entry{})
}

// replicate hands the connection over, unless the server refuses: a replica must see what
// is stored.
func (c *feedCommands) replicate(r *request) error {
	switch {
	case c.talk.tx.open:
		return c.talk.forward(r, entry{}) // refused
	case c.talk.st.monitors:
		return nil // by the server, too
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
