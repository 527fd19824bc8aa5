package tarantool

import (
	"sync/atomic"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// shutdownEvent is what drivers watch to hear that a server shuts down: they send nothing more, wait for their replies, disconnect and connect
// again. So they learn of the gateway's drain too.
const shutdownEvent = "box.shutdown"

// shutdownWatch records whether the client hears of a shutdown.
type shutdownWatch struct {
	shutdown bool        // it watches; the request pump's
	told     atomic.Bool // and has heard of the drain
}

// note records what a client begins or ends to watch.
func (w *shutdownWatch) note(r *request) {
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return
	}
	if name, ok := wire.Text(r.body.Event.Of(r.bytes)); ok && string(name) == shutdownEvent {
		w.shutdown = r.header.Type == wire.Watch
	}
}

// stale reports an event of the server's that a client which was told of the drain must not see any more: drivers keep the last value
// of a name only, and a server says at once what it is of a name that a client begins to watch.
func (w *shutdownWatch) stale(r *reply) bool {
	if !w.told.Load() || r.body.Parse(r.bytes, r.header.Map.End()) != nil {
		return false
	}
	name, ok := wire.Text(r.body.Event.Of(r.bytes))
	return ok && string(name) == shutdownEvent
}

// Drain cuts replication off, which has no place between requests, and starts again by itself.
func (s *session) Drain() {
	s.BeginDrain()
	if s.replicates.Load() {
		_ = s.Close()
		return
	}
	s.Life.Drain()
}

// sayShutdown tells a client of the drain, once.
func (s *session) sayShutdown() {
	if w := &s.watching; s.Draining() && w.shutdown && w.told.CompareAndSwap(false, true) {
		_ = s.toClient.send(wire.AppendEvent(nil, s.g.catalog.seen.Load(), shutdownEvent))
	}
}

// idle reports that a drain may end the session. The server would roll open transactions back, so these have its grace; so has
// a client that is told of the drain, to leave by itself.
func (s *session) idle() bool {
	waits := len(s.transactions) > 0 || s.watching.shutdown
	return !s.outstanding.busy() && (!waits || s.Overdue())
}

// follow records the transactions of streams, of as many as may be under way in lanes.
func (s *session) follow(h *wire.Header) {
	switch h.Type {
	case wire.Begin:
		if s.transactions == nil {
			s.transactions = map[uint64]struct{}{}
		}
		if len(s.transactions) < maxLanes {
			s.transactions[h.Stream] = struct{}{}
		}
	case wire.Commit, wire.Rollback:
		delete(s.transactions, h.Stream)
	}
}
