package tarantool

import (
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// replyPump carries the server's replies to one client, each with what is sealed in it opened.
type replyPump struct {
	in       reader // from the server
	talk     *conversation
	opener   *opener
	steps    *stepReader
	identity *identity
	retrier  *retrier
	pipe     *pipe
	watching *shutdownWatch

	reply  reply  // the one at hand
	schema uint64 // version in the last answer
}

// run carries the greeting and then replies, until the server ends or an error.
func (p *replyPump) run() error {
	err := p.greet()
	for err == nil {
		var f frame
		if f, err = p.in.next(); err == nil {
			err = p.handle(&f)
		}
	}
	return err
}

// free gives back what the pump holds when it has ended, and sends what is left.
func (p *replyPump) free() {
	_ = p.talk.toClient.flush()
	p.in.Free()
}

// greet carries the greeting.
func (p *replyPump) greet() error {
	greeting, err := p.in.raw(wire.GreetingLen)
	if err != nil {
		return err
	}
	p.talk.catalog.greet()
	version := store.ParseVersion(string(greeting))
	p.talk.server.Store(&version)
	return p.talk.toClient.send(greeting)
}

// handle sends one frame of the server's to the client.
func (p *replyPump) handle(f *frame) error {
	if p.pipe.on.Load() {
		return p.pipe.replies(&p.in, f.bytes)
	}
	began := time.Now()
	r := &p.reply
	r.bytes = f.body()
	if err := r.header.Parse(r.bytes); err != nil {
		return err
	}
	if r.header.Schema != p.schema {
		p.schema = r.header.Schema
		p.talk.catalog.note(p.schema)
	}
	switch r.header.Type {
	case wire.Event:
		if p.watching.stale(r) {
			return nil
		}
		return p.answer(f, wire.Event, nil)
	case wire.Chunk:
		return p.answerPart(f)
	}
	e, ok := p.talk.outstanding.take(r.header.Sync)
	moved := r.header.Type == wire.ErrorFlag|wire.ErrSchemaVersion && e.asksAgain()
	arrived(e.trace, moved, began, p.in.Waited)
	switch {
	case !ok:
	case e.splice != nil:
		return p.answerStep(f, e.splice, moved)
	case e.probe:
		p.talk.outstanding.begun(e.stream, e.sent)
		return nil
	case moved:
		p.noteMoved(e.stamp)
		p.retrier.park(r.header.Sync, e)
		return nil
	}
	p.identity.answered(e.kind, r.header.Sync, r.header.Type)
	defer p.talk.originals.drop(&e)
	if e.broken != "" {
		return p.refuse(&refusal{wire.ErrSystem, "", e.broken}, e.trace)
	}
	err := p.answer(f, e.kind, e.trace)
	if ok {
		p.talk.stats.Latency(e.spent + time.Since(began))
	}
	return err
}

// noteMoved takes notice of a request that the server refused for a stamp of ours.
func (p *replyPump) noteMoved(stamp uint64) {
	p.talk.catalog.refused(stamp)
	p.talk.stats.Error("schema_changed")
}

// answer sends a reply to a request of that kind with what is sealed in it opened.
func (p *replyPump) answer(f *frame, kind wire.Type, c *trace.Command) error {
	defer p.opener.release()
	asked := c.Now()
	out, no := p.opener.open(&p.reply, kind)
	if no != nil {
		return p.refuse(no, c)
	}
	defer gateway.PutBuffer(out)
	if out != nil {
		since(c, "codec reply", asked)
	}
	err := p.send(f, out)
	ended(c, p.reply.header.Type, err)
	return err
}

// answerPart sends what box.session.push sent. A part that does not open is left out, and the
// reply itself becomes the error.
func (p *replyPump) answerPart(f *frame) error {
	sync := p.reply.header.Sync
	defer p.opener.release()
	out, no := p.opener.open(&p.reply, p.talk.outstanding.kindOf(sync))
	if no != nil {
		p.talk.outstanding.breakUp(sync, no.text)
		return nil
	}
	defer gateway.PutBuffer(out)
	return p.send(f, out)
}

// answerStep tells the splicer of the answer to a step, or the client, when it was the last.
func (p *replyPump) answerStep(f *frame, x *splice, moved bool) error {
	r := &p.reply
	if err := r.readdress(x.sync); err != nil {
		return err
	}
	if moved {
		p.noteMoved(x.stamp)
		x.answers <- stepAnswer{moved: true}
		return nil
	}
	a, again, no, err := p.steps.read(x, r)
	switch {
	case err != nil:
		return err
	case no != nil:
		err = p.refuse(no, x.trace)
	case again:
		x.answers <- a
		return nil
	default:
		err = p.answer(f, x.kind, x.trace)
		p.talk.stats.Latency(time.Since(x.began))
	}
	x.answers <- stepAnswer{done: true}
	return err
}

// send sends a reply, or what takes its place.
func (p *replyPump) send(f *frame, opened []byte) error {
	if opened == nil {
		return p.talk.toClient.write(f.bytes)
	}
	return p.talk.toClient.write(opened)
}

// refuse sends an error in place of the reply at hand.
func (p *replyPump) refuse(no *refusal, c *trace.Command) error {
	refused(c, no)
	return p.talk.toClient.write(wire.AppendError(nil, p.reply.header.Sync, p.schema, no.code, no.text))
}
