package tarantool

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// retrier sends requests of one client that are parked: those that the server refused because the
// schema had changed, and those that take several steps. It does so in a goroutine for each lane that
// has any, since neither pump may wait for the schema or for an answer.
type retrier struct {
	talk       *conversation
	rewriter   *rewriting
	statements *statements
	splicer    *splicer
	identity   *identity
	ctx        context.Context // ends with the session
	end        func()          // of that
	log        *slog.Logger

	background sync.WaitGroup
}

// maxTries is how often a request is rewritten for a schema that keeps changing. Then it goes
// as the client sent it: nothing has to be sealed.
const maxTries = 3

// park has a request sent, behind those that are parked in its lane.
func (t *retrier) park(sync uint64, e exchange) {
	if t.talk.outstanding.park(sync, e) {
		t.background.Add(1)
		go t.run(e.stream)
	}
}

// run sends the requests that are parked in a lane, in their order. One at most is at work in a lane,
// which it holds.
func (t *retrier) run(stream uint64) {
	defer t.background.Done()
	defer gateway.CatchPanic(t.log, t.talk.stats, t.end)
	for {
		list := t.talk.outstanding.unpark(stream)
		if list == nil {
			return
		}
		for i := range list {
			done, err := t.send(&list[i])
			if err != nil {
				for ; i < len(list); i++ {
					t.talk.originals.drop(&list[i].exchange)
				}
				t.end() // which ends the wait in unpark too
				break
			}
			if !done {
				t.talk.outstanding.putBack(stream, list[i:])
				break
			}
		}
	}
}

// send sends one parked request. It reports false when others before it have to be sent
// first.
func (t *retrier) send(p *parked) (done bool, err error) {
	began := time.Now()
	e := &p.exchange
	original := frame{bytes: e.original, prefix: int(e.prefix)}
	r := request{bytes: original.body(), login: t.identity.login()}
	if r.parse() != nil {
		return false, wire.ErrMalformed // can't be: it was parsed before
	}
	laneStamp := t.talk.outstanding.stampOf(e.stream)
	w, no := t.rewrite(&r, int(e.tries), laneStamp)
	switch {
	case no != nil:
		refused(e.trace, no)
		t.talk.originals.drop(e)
		return true, t.talk.refuse(p.sync, no)
	case w.need.space != nil:
		return t.splice(p, &r, w.need)
	case w.bytes == nil && laneStamp != 0 && r.header.Schema == 0:
		w.bytes, w.stamp = r.stamped(laneStamp), laneStamp
	}
	defer gateway.PutBuffer(w.bytes)
	next := exchange{kind: e.kind, spent: e.spent + time.Since(began), stream: e.stream, order: e.order, stamp: w.stamp, trace: e.trace}
	out := w.bytes
	if out == nil {
		out = original.bytes
	} else {
		since(e.trace, "codec request", began)
	}
	if w.stamp != 0 {
		next.original, next.prefix, next.held, next.free, next.tries = e.original, e.prefix, e.held, e.free, e.tries+1
		e.original = nil
	} else {
		defer t.talk.originals.drop(e)
	}
	return true, t.talk.submitNow(p.sync, next, out)
}

// rewrite is that of a request that met another schema. What waits behind it waits
// for the schema too.
func (t *retrier) rewrite(r *request, tries int, laneStamp uint64) (rewritten, *refusal) {
	h := handlingOf(r.header.Type)
	switch {
	case h == passes:
		return rewritten{}, nil
	case h == sql:
		return rewritten{}, t.statements.check(t.ctx, r)
	case tries < maxTries:
		return t.rewriter.rewrite(t.ctx, r, h, laneStamp)
	case hasMagic(r.bytes) || r.splices():
		return rewritten{}, &refusal{wire.ErrSystem, "schema", "cinch: the schema changes all the time"}
	}
	return rewritten{}, nil
}

// splice carries out a parked request whose operations need what is stored.
func (t *retrier) splice(p *parked, r *request, n need) (done bool, err error) {
	if ok, err := t.talk.alone(p.stream); !ok {
		return false, err
	}
	done, err = t.splicer.carryOut(p, r, n)
	if err == nil && !done { // by the next schema
		p.tries++
		return t.send(p)
	}
	t.talk.originals.drop(&p.exchange)
	return true, err
}
