package mongo

import (
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// replyPump carries a session's replies.
type replyPump struct {
	in      reader
	client  *sender
	door    *gateway.Door
	pending *pending
	sides   *sides
	hellos  *hellos
	recoder recoder

	balancer *balancer
	follower *follower

	reply reply // the one at hand
}

// run carries replies until the server ends or an error.
func (p *replyPump) run() error {
	defer p.in.Free()
	for {
		m, err := p.in.next()
		if err == nil {
			err = p.handle(m)
		}
		if err != nil {
			return err
		}
	}
}

// handle sends one message of the server's to the client.
func (p *replyPump) handle(m message) error {
	if m.paired.Dictionary {
		return p.sides.fromServer.take(m.bytes, &m.paired)
	}
	began, r := time.Now(), &p.reply
	body, opened, err := p.sides.open(&p.sides.fromServer, &m)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(opened)
	if err := r.parse(m, body); err != nil {
		return err
	}
	e, ok := p.pending.take(m.header.ResponseTo, r.more, m.header.RequestID)
	arrived(e.trace, &m, began, p.in.Waited)
	switch {
	case !ok:
		e.client = plain
	case e.hello != nil:
		err = p.answerHello(e.hello)
		p.pending.carried()
		ended(e.trace, r.doc(), err)
		return err
	case e.logsIn && loggedIn(r.doc()):
		p.door.Pass()
	}
	return p.deliver(&e, ok, began)
}

// deliver sends a client the reply to a command, or one that nobody waits for.
func (p *replyPump) deliver(e *exchange, ok bool, began time.Time) error {
	r := &p.reply
	lost, deliver := p.balancer.checkReply(p.follower, e.retried, r.doc())
	if !deliver {
		ended(e.trace, nil, errNotPrimary)
		return errNotPrimary
	}
	p.time(e, began)
	p.recoder.learn(e, r)
	forming := e.trace.Now()
	out, pooled := p.recoder.form(e, r, began)
	defer gateway.PutBuffer(pooled)
	formed(e.trace, out, pooled, forming)
	p.recoder.topics.measure(e.topic, policy.Reply, r.body, p.sides.crossed(out, r.bytes), began)
	if ok {
		p.recoder.codecs.stats.Latency(e.spent + time.Since(began))
	}
	err := p.client.send(out, r.held)
	p.pending.carried()
	ended(e.trace, r.doc(), err)
	if err == nil && (lost || p.follower.stale.Load() && !p.pending.busy()) {
		err = errNotPrimary
	}
	return err
}

// time takes notice of how long the reply was under way.
func (p *replyPump) time(e *exchange, began time.Time) {
	p.recoder.link.received(p.in.rest, len(p.reply.bytes), p.in.took)
	if !e.sent.IsZero() {
		p.recoder.link.answered(began.Sub(e.sent) - p.in.took)
	}
}

// answerHello sends a client the reply to its hello. It is never compressed.
func (p *replyPump) answerHello(h *handshake) error {
	if p.reply.noDoc == nil && p.reply.document.Len == 0 {
		return p.client.send(p.reply.body, p.reply.held)
	}
	out, err := p.hellos.answer(h, &p.reply)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(out)
	return p.client.send(out, p.reply.held)
}
