package redis

import (
	"bytes"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// transaction is what the request pump knows of the client's MULTI.
type transaction struct {
	open    bool
	refused *atomic.Bool     // set by the answer to this MULTI: there is no transaction after all
	budget  *gateway.Account // takes bytes
	known   []lua.Known      // values sealed for SETs that are queued: a later command in the same transaction may need them back
	bytes   int
	held    []int64
	entries int     // bytes of what is queued for EXEC
	queued  int     // of the budget, for that
	space   *string // selected in the transaction
	changes bool    // EXEC changes what the next request depends on
	login   bool    // as whom the client is logged in, too
	asking  bool    // ASKING came before it, and holds for all of it
	brings  bool    // something that is queued may bring a sealed value to any key
}

// maxTransactionBytes bounds what the replies to one transaction take in memory here.
const maxTransactionBytes = 16 << 20

// maxRemembered bounds, in bytes, what is kept of a transaction. Beyond it a command that
// computes on a value set earlier in the same transaction answers with an error.
const maxRemembered = 1 << 20

func (t *transaction) remember(sealed, value []byte) {
	n := len(sealed) + len(value)
	if t.bytes+n > maxRemembered || !t.budget.TryAcquire(int64(n)) {
		return
	}
	t.held = append(t.held, int64(n))
	t.bytes += n
	t.known = append(t.known, lua.Known{Sealed: bytes.Clone(sealed), Value: bytes.Clone(value)})
}

// guardInTransaction queues a guarded command with every value that it may meet: those
// stored now, read on a second connection, and those set in this transaction.
func (s *session) guardInTransaction(r *request, script string, keys [][]byte) error {
	found := s.probeBeside(keys)
	if found.err != nil {
		return s.refuseBroken(found.err)
	}
	k := append([]lua.Known(nil), s.tx.known...)
	for i := range found.parts {
		k = append(k, found.parts[i].Known)
	}
	if len(k) > 0 {
		s.g.cfg.Stats.Guarded(r.cmd.name, "in_transaction")
	}
	if err := s.expect(entry{kind: kindAsk, op: &op{}}); err != nil {
		return err
	}
	return s.send(lua.CallGuard(script, keys, k, r.args))
}

// fits takes memory for what is queued for EXEC, but for the first bytes. It reports whether there was some.
func (t *transaction) fits() bool {
	for t.entries > freeQueueBytes+t.queued {
		if !t.budget.TryAcquire(queuePieceBytes) {
			return false
		}
		t.queued += queuePieceBytes
	}
	return true
}

func (s *session) multi(r *request) error {
	if s.tx.open && !s.settle() { // whether there is one
		return errGone
	}
	if s.tx.open && !s.tx.refused.Load() {
		return s.forward(r, entry{})
	}
	s.endTransaction()
	refused := new(atomic.Bool)
	err := s.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) { refused.Store(a.isError()) }}})
	s.tx.open, s.tx.refused, s.tx.asking = true, refused, s.asks.on
	return err
}

// exec: whatever the server answers, the transaction is over, unless there was none.
func (s *session) exec(r *request) error {
	changes, login := s.tx.changes || s.tx.login, s.tx.login
	e := entry{kind: kindExec}
	if n := int64(s.tx.queued); n > 0 { // until its replies have been carried
		e.op = &op{after: func(answer) { s.requestRoom.Release(n) }}
		s.tx.queued = 0
	}
	s.endTransaction()
	err := s.forward(r, e)
	if changes && err == nil && !s.settle() {
		err = errGone
	}
	if login {
		s.forgetRights()
	}
	return err
}

func (s *session) discard(r *request) error {
	s.endTransaction()
	return s.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if !a.isError() {
			s.out.tx = nil
		}
	}}})
}

// endTransaction ends MULTI, and with it WATCH.
func (s *session) endTransaction() {
	if s.tx.open && !s.tx.refused.Load() {
		s.endWatch()
	}
	for _, n := range s.tx.held {
		s.tx.budget.Release(n)
	}
	s.tx.budget.Release(int64(s.tx.queued))
	s.tx = transaction{budget: s.requestRoom}
}
