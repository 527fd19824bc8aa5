package tarantool

import (
	"context"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// maxTries is how often a request is rewritten for a schema that keeps changing. Then it goes
// as the client sent it: nothing has to be sealed.
const maxTries = 3

// retry sends a request again that the server refused because the schema had changed. It runs
// in a goroutine of its own, since neither pump may wait for the schema. The exchange has been
// taken from those that are pending.
func (s *session) retry(sync uint64, e exchange) {
	defer s.retries.Done()
	defer s.pending.retried()
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
	s.g.cfg.Stats.Error("schema_changed")
	if err := s.tryAgain(sync, &e); err != nil {
		_ = s.Close()
	}
}

func (s *session) tryAgain(sync uint64, e *exchange) error {
	began := time.Now()
	original := frame{bytes: e.original, prefix: e.prefix}
	r := request{bytes: original.body()}
	if r.header.Parse(r.bytes) != nil || r.body.Parse(r.bytes, r.header.Map.End()) != nil {
		return wire.ErrMalformed // can't be: it was parsed before
	}
	out, p, no := s.g.rewriteAgain(s.ctx, &r, e.tries)
	if no != nil {
		s.pending.drop(e)
		s.g.cfg.Stats.Guarded(no.what, "refused")
		return s.toClient.send(wire.AppendError(nil, sync, s.g.catalog.seen.Load(), no.code, no.text))
	}
	pooled := out
	defer gateway.PutBuffer(pooled) // what comes instead of it below is not ours to give back
	again := exchange{kind: e.kind, spent: e.spent + time.Since(began)}
	if p != nil {
		again.original, again.prefix, again.held, again.tries = e.original, e.prefix, e.held, e.tries+1
		again.stamp = p.version
	} else {
		defer s.pending.drop(e)
	}
	if out == nil {
		out = original.bytes
	}
	if !s.pending.push(sync, again, s.toServer.flush) {
		return net.ErrClosed
	}
	return s.toServer.send(out)
}

// rewriteAgain is rewrite for a request that met another schema.
func (g *Gateway) rewriteAgain(ctx context.Context, r *request, tries int) ([]byte, *plan, *refusal) {
	if tries < maxTries {
		return g.rewrite(ctx, r, handlingOf(r.header.Type))
	}
	if hasMagic(r.bytes) || g.splices(r) {
		return nil, nil, &refusal{wire.ErrSystem, "schema", "cinch: the schema changes all the time"}
	}
	return nil, nil, nil
}
