package mongo

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// A transaction becomes one operation when production has ended it: its statements may use several
// connections, and a target that had executed half of one would block others. At a target it begins when all
// operations before it are done; its number is that of its end.

// transaction is a transaction that production has not ended.
type transaction struct {
	began time.Time
	ops   []*shadow.Operation
	size  int64
}

// transactions holds the open transactions, by session and number. It is used by the mirror's goroutine only.
type transactions struct {
	open  map[string]*transaction
	bytes int64

	// Number of the last answered retryable write of each session.
	written shadow.Recent[string, int64]
}

// Limits of the state that is kept.
const (
	maxTransactionBytes = 64 << 20
	maxTransactions     = 10_000
	transactionTime     = 10 * time.Minute
	maxSessions         = 100_000
)

func newTransactions() *transactions {
	return &transactions{open: map[string]*transaction{}}
}

func (q *request) transactionKey() string {
	return q.session + " " + strconv.FormatInt(q.transaction, 10)
}

// forget removes an open transaction and returns it, nil if there is none.
func (t *transactions) forget(key string) *transaction {
	tx := t.open[key]
	if tx != nil {
		t.bytes -= tx.size
		delete(t.open, key)
	}
	return tx
}

// begin adds a transaction. It reports whether there is room, after removing those that were left open.
func (t *transactions) begin(key string, at time.Time) bool {
	t.forget(key)
	if len(t.open) >= maxTransactions {
		t.expire(at)
	}
	if len(t.open) >= maxTransactions {
		return false
	}
	t.open[key] = &transaction{began: at}
	return true
}

// expire removes transactions that clients have left open. Servers end those after a minute, unless
// configured otherwise, and no message shows that.
func (t *transactions) expire(at time.Time) {
	for key, tx := range t.open {
		if at.Sub(tx.began) > transactionTime {
			t.forget(key)
		}
	}
}

// retried reports whether a retryable write was answered before, and records it.
func (t *transactions) retried(q *request) bool {
	if q.transaction == 0 || q.inTransaction {
		return false
	}
	if last, ok := t.written.Get(q.session); ok && last == q.transaction {
		return true
	}
	t.written.Put(q.session, q.transaction, maxSessions)
	return false
}

// leftOut returns an operation that is only counted.
func leftOut(why string) []*shadow.Operation { return []*shadow.Operation{{SkipReason: why}} }

// inTransaction processes a statement of a transaction and its answer.
func (p *Protocol) inTransaction(q *request, reply []byte, at time.Time) []*shadow.Operation {
	key := q.transactionKey()
	if q.starts && !p.transactions.begin(key, q.at) {
		return leftOut("transactions while very many were open")
	}
	tx := p.transactions.open[key]
	failed := failure(reply) != "" || document(reply, "writeErrors") != nil
	switch {
	case tx == nil && (q.class == commit || q.class == abort):
		return nil // it ended before
	case tx == nil:
		return leftOut("statements of transactions whose beginning is not mirrored")
	case q.class == commit && failed && labelled(reply, "UnknownTransactionCommitResult"):
		return nil // the client will retry
	case failed:
		p.transactions.forget(key)
		return leftOut("transactions that failed in production")
	case q.class == commit:
		return []*shadow.Operation{p.whole(p.transactions.forget(key), false, at)}
	case q.class == abort:
		p.transactions.forget(key)
		if p.standalone {
			return leftOut("transactions that clients aborted (a target is not a replica set)")
		}
		return []*shadow.Operation{p.whole(tx, true, at)}
	}
	ops, why := p.operations(q, reply, at)
	if why != "" {
		return leftOut(why)
	}
	if p.add(tx, ops, q.size); p.transactions.bytes > maxTransactionBytes {
		p.transactions.expire(at)
	}
	if p.transactions.bytes > maxTransactionBytes || p.transactions.open[key] != tx {
		p.transactions.forget(key)
		return leftOut("transactions that are too large")
	}
	return nil
}

func (p *Protocol) add(tx *transaction, ops []*shadow.Operation, size int64) {
	tx.ops = append(tx.ops, ops...)
	tx.size += size
	p.transactions.bytes += size
}

// whole returns a transaction as one operation.
func (p *Protocol) whole(tx *transaction, aborts bool, at time.Time) *shadow.Operation {
	op := &shadow.Operation{Kind: shadow.Write, Name: "transaction"}
	w := &work{transaction: !p.standalone, aborts: aborts}
	for _, one := range tx.ops {
		op.Name += " " + strings.Fields(one.Name)[0]
		op.TouchesAll = op.TouchesAll || one.TouchesAll
		op.Keys = append(op.Keys, one.Keys...)
		op.Uses = append(op.Uses, one.Uses...)
		op.Request = append(op.Request, one.Request...)
		op.Production = join(op.Production, one.Production, one.Check)
		w.statements = append(w.statements, one.Private.(*work).statements...)
	}
	if aborts {
		op.Name += " aborted"
	}
	if len(op.Name) > 80 {
		op.Name = op.Name[:80]
	}
	slices.Sort(op.Keys)
	op.Keys = coarse(slices.Compact(op.Keys))
	w.moveTo(op.Request)
	op.Private = w
	op.Production.Took = at.Sub(tx.began)
	return op
}

// moveTo lets the statements refer to one buffer, which holds their bytes in order.
func (w *work) moveTo(memory []byte) {
	for _, s := range w.statements {
		n, m := len(s.body), len(s.body)+len(s.rest)
		s.body, s.rest, memory = memory[:n:n], memory[n:m:m], memory[m:]
	}
}

// coarse replaces many documents by their collections.
func coarse(keys []string) []string {
	if len(keys) <= maxIDs {
		return keys
	}
	for i, k := range keys {
		keys[i], _, _ = strings.Cut(k, shadow.Part)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
