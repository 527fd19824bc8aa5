package tarantool

import (
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// Two kinds of requests are parked, which means kept to be sent later: requests that the server refused because the
// schema had changed, and requests that take several steps. In each queue with parked requests one goroutine sends
// them.

// maxTries limits how often a request is rewritten for a schema that keeps changing. After that the request is sent
// unchanged, which is safe since no value has to be compressed. It is refused if it may hold an envelope or cut one.
const maxTries = 3

// sendInSteps parks the current request, whose operations need the stored tuple.
func (s *session) sendInSteps(f *frame, e exchange) error {
	if !s.outstanding.retryBuffer.keep(&e, f, 3) {
		s.g.cfg.Stats.Error("budget")
		return s.refuse(noMemory)
	}
	if _, ok := s.outstanding.reserve(e.stream, true, e.trace); !ok {
		s.outstanding.retryBuffer.drop(&e)
		return net.ErrClosed
	}
	s.park(s.req.header.Sync, e)
	return nil
}

// park parks a request behind the others in its queue, and starts the goroutine that sends them if it does not run.
func (s *session) park(sync uint64, e exchange) {
	if s.outstanding.park(sync, e) {
		s.background.Go(func() { s.sendParked(e.stream) })
	}
}

// parkRefused parks a request that the server has refused because the schema has changed. arrived is the time of
// the reply. It returns false for requests that are not sent again.
func (s *session) parkRefused(sync uint64, arrived time.Time) bool {
	parked, first, stream := s.outstanding.parkRefused(sync, func(e *exchange) {
		traceReply(e.trace, true, arrived, s.fromServer.Waited)
		s.recordSchemaChange(e.stamp)
	})
	if first {
		s.background.Go(func() { s.sendParked(stream) })
	}
	return parked
}

// sendParked sends the parked requests of a queue in their order, while the client's next requests in the queue wait.
// At most one goroutine does so for each queue.
func (s *session) sendParked(stream uint64) {
	defer s.Catch()
	for {
		list := s.outstanding.unpark(stream)
		if list == nil {
			return
		}
		for i := range list {
			done, err := s.sendAgain(&list[i])
			if err != nil {
				for ; i < len(list); i++ {
					s.outstanding.retryBuffer.drop(&list[i].exchange)
				}
				_ = s.Close() // this also ends the wait in unpark
				break
			}
			if !done {
				s.outstanding.putBack(stream, list[i:])
				break
			}
		}
		if s.toServer.flush() != nil {
			_ = s.Close()
		}
	}
}

// sendAgain sends one parked request. done is false if others have to be sent before it.
func (s *session) sendAgain(p *parked) (done bool, err error) {
	began := time.Now()
	e := &p.exchange
	original := frame{bytes: e.original, prefix: int(e.prefix)}
	r := request{bytes: original.body(), login: s.identity.login()}
	if r.header.Parse(r.bytes) != nil {
		return false, wire.ErrMalformed // can't happen: it was parsed before
	}
	_ = r.body.Parse(r.bytes, r.header.Map.End()) // can't fail if the body is needed: it was parsed before, too
	w, refused := s.rewriteAgain(&r, int(e.tries), s.outstanding.queueStamp(e.stream))
	switch {
	case refused != nil:
		s.outstanding.retryBuffer.drop(e)
		return true, s.sendRefusal(p.sync, e.trace, refused)
	case w.steps.space != nil:
		return s.sendStepped(p, &r, w.steps)
	}
	out := original.bytes
	if w.bytes != nil {
		defer memory.PutBuffer(w.bytes)
		traceSince(e.trace, "codec request", began)
		out = w.bytes
	}
	next := exchange{kind: e.kind, spent: e.spent + time.Since(began), stream: e.stream, order: e.order, stamp: w.stamp, trace: e.trace}
	if w.stamp != 0 {
		next.original, next.prefix, next.budgetBytes, next.freeBytes, next.tries = e.original, e.prefix, e.budgetBytes, e.freeBytes, e.tries+1
		next.tupleHash = w.tupleHash
		e.original = nil
	} else {
		defer s.outstanding.retryBuffer.drop(e)
	}
	return true, s.submit(p.sync, next, out)
}

// rewriteAgain rewrites a parked request, which has been sent again tries times. It may wait for the schema, and the
// requests behind it wait with it.
func (s *session) rewriteAgain(r *request, tries int, queueStamp uint64) (rewritten, *refusal) {
	h := handlingOf(r.header.Type)
	if h.hasValues() && tries >= maxTries {
		if hasMagic(r.bytes) || r.hasSplice() {
			return rewritten{}, &refusal{wire.ErrSystem, "schema", "cinch: the schema keeps changing: try again"}
		}
		h = ordered
	}
	return s.g.rewrite(s.Context(), r, h, queueStamp)
}

// sendStepped carries out a parked request whose operations need the stored tuple.
func (s *session) sendStepped(p *parked, r *request, plan stepPlan) (done bool, err error) {
	if err := s.toServer.flush(); err != nil { // send the requests before it
		return false, err
	}
	if ok, err := s.outstanding.awaitAccepted(p.stream); !ok {
		return false, err
	}
	done, err = s.runSteps(p, r, plan)
	if err == nil && !done { // the schema has changed again
		p.tries++
		return s.sendAgain(p)
	}
	s.outstanding.retryBuffer.drop(&p.exchange)
	return true, err
}
