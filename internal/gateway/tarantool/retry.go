package tarantool

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// maxTries is how often a request is rewritten for a schema that keeps changing. Then it goes
// as the client sent it: nothing has to be sealed.
const maxTries = 3

// sendParked sends the requests that are parked in a lane, in their order: those that the server
// refused because the schema had changed, and those that take several steps. It runs in a
// goroutine of its own, since neither pump may wait for the schema or for an answer. One at most
// is at work in a lane, which it holds.
func (s *session) sendParked(stream uint64) {
	defer s.background.Done()
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
	for {
		list := s.pending.unpark(stream)
		if list == nil {
			return
		}
		for i := range list {
			done, err := s.sendOne(&list[i])
			if err != nil {
				for ; i < len(list); i++ {
					s.pending.drop(&list[i].exchange)
				}
				_ = s.Close() // which ends the wait in unpark too
				break
			}
			if !done {
				s.pending.putBack(stream, list[i:])
				break
			}
		}
	}
}

// sendOne sends one parked request. It reports false when others before it have to be sent
// first.
func (s *session) sendOne(r *parked) (done bool, err error) {
	began := time.Now()
	e := &r.exchange
	original := frame{bytes: e.original, prefix: int(e.prefix)}
	req := request{bytes: original.body(), login: s.identity.login()}
	if req.header.Parse(req.bytes) != nil || req.body.Parse(req.bytes, req.header.Map.End()) != nil {
		return false, wire.ErrMalformed // can't be: it was parsed before
	}
	laneStamp := s.pending.stampOf(e.stream)
	w, no := s.g.rewriteAgain(s.Context(), &req, int(e.tries), laneStamp)
	switch {
	case no != nil:
		s.pending.drop(e)
		return true, s.refuseLate(r.sync, no)
	case w.splice != nil:
		return s.spliceParked(r, &req, w)
	case w.bytes == nil && laneStamp != 0 && req.header.Schema == 0:
		w.bytes, w.stamp = stamped(&req, laneStamp), laneStamp
	}
	defer gateway.PutBuffer(w.bytes)
	next := exchange{kind: e.kind, spent: e.spent + time.Since(began), stream: e.stream, order: e.order, stamp: w.stamp}
	out := w.bytes
	if out == nil {
		out = original.bytes
	}
	if w.stamp != 0 {
		next.original, next.prefix, next.held, next.free, next.tries = e.original, e.prefix, e.held, e.free, e.tries+1
		e.original = nil
	} else {
		defer s.pending.drop(e)
	}
	return true, s.submitNow(r.sync, next, out)
}

// refuseLate answers a request that is no longer at hand with an error.
func (s *session) refuseLate(sync uint64, no *refusal) error {
	s.g.cfg.Stats.Guarded(no.what, "refused")
	return s.toClient.send(wire.AppendError(nil, sync, s.g.catalog.seen.Load(), no.code, no.text))
}

// rewriteAgain is rewrite for a request that met another schema. What waits behind it waits
// for the schema too.
func (g *Gateway) rewriteAgain(ctx context.Context, r *request, tries int, laneStamp uint64) (rewritten, *refusal) {
	h := handlingOf(r.header.Type)
	switch {
	case h == passes:
		return rewritten{}, nil
	case h == sql:
		return rewritten{}, g.checkSQL(ctx, r)
	case tries < maxTries:
		return g.rewrite(ctx, r, h, laneStamp)
	case hasMagic(r.bytes) || g.splices(r):
		return rewritten{}, &refusal{wire.ErrSystem, "schema", "cinch: the schema changes all the time"}
	}
	return rewritten{}, nil
}
