package tarantool

import (
	"sync/atomic"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// shutdownEvent is the event that drivers watch to learn that a server shuts down. They then send nothing
// more, wait for their replies, disconnect and connect again. The gateway sends it when it drains.
const shutdownEvent = "box.shutdown"

// shutdownWatch records whether the client watches for a shutdown, and whether it was told of one.
type shutdownWatch struct {
	watches  bool        // the client watches shutdownEvent; used by the request pump only
	notified atomic.Bool // the gateway has sent the client shutdownEvent
}

// record records that a client begins or ends to watch shutdownEvent.
func (w *shutdownWatch) record(r *request) {
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return
	}
	if name, ok := wire.Text(r.body.Event.Of(r.bytes)); ok && string(name) == shutdownEvent {
		w.watches = r.header.Type == wire.Watch
	}
}

// isStale reports whether r is a shutdownEvent of the server that must not reach the client, because the gateway has
// sent the event itself. Drivers keep only the last value of an event, and a server sends its value as soon as a client
// begins to watch.
func (w *shutdownWatch) isStale(r *reply) bool {
	if !w.notified.Load() || r.body.Parse(r.bytes, r.header.Map.End()) != nil {
		return false
	}
	name, ok := wire.Text(r.body.Event.Of(r.bytes))
	return ok && string(name) == shutdownEvent
}

// Drain closes a connection for replication, which has no gap between requests at which to end; the replica
// connects again by itself. Other sessions drain as PumpedSession does.
func (s *session) Drain() {
	s.BeginDrain()
	if s.isReplication.Load() {
		_ = s.Close()
		return
	}
	s.PumpedSession.Drain()
}

// announceShutdown tells a watching client of the drain, once.
func (s *session) announceShutdown() {
	if w := &s.shutdownWatch; s.Draining() && w.watches && w.notified.CompareAndSwap(false, true) {
		_ = s.toClient.send(wire.AppendEvent(nil, s.g.catalog.seenVersion.Load(), shutdownEvent))
	}
}

// idle reports whether a drain may end the session: not while replies are outstanding. While a transaction is open,
// which the server would roll back, it may end the session only after the grace period. The same holds for a client
// that watches for shutdowns, since that may disconnect by itself.
func (s *session) idle() bool {
	waits := len(s.transactions) > 0 || s.shutdownWatch.watches
	return !s.outstanding.busy() && (!waits || s.Overdue())
}

// trackTransaction records which streams have open transactions. It ignores those beyond maxStreamQueues.
func (s *session) trackTransaction(h *wire.Header) {
	switch h.Type {
	case wire.Begin:
		if s.transactions == nil {
			s.transactions = map[uint64]struct{}{}
		}
		if len(s.transactions) < maxStreamQueues {
			s.transactions[h.Stream] = struct{}{}
		}
	case wire.Commit, wire.Rollback:
		delete(s.transactions, h.Stream)
	}
}
