package redis

import (
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// transaction is a MULTI that production has accepted. It becomes one operation when EXEC is answered.
type transaction struct {
	at     time.Time
	queued []request
}

// inTransaction processes the reply to a request after MULTI.
func (r *reader) inTransaction(q request, frame []byte, at time.Time) []*shadow.Operation {
	if !q.closesTx {
		if frame[0] == resp.Simple {
			r.tx.queued = append(r.tx.queued, q)
			r.held += q.weight()
		}
		return nil
	}
	tx, watched := r.tx, r.watched
	r.tx, r.watched = nil, nil
	for _, q := range tx.queued {
		r.held -= q.weight()
	}
	if q.name == "discard" || frame[0] == resp.Error {
		return r.unwatch()
	}
	if h, _ := head(frame); h.IsNull() {
		return r.unwatch() // production aborted it, so there is nothing to mirror
	}
	done := r.expireBefore(&shadow.Operation{Keys: r.unwatchedKeys(tx.queued, watched)}, q, frame, at)
	op, selected := r.transactionOperation(tx.queued, frame, at)
	op.Keys = append(op.Keys, watched...) // a target that sees another connection's write to them aborts it
	slices.Sort(op.Keys)
	op.Keys = slices.Compact(op.Keys)
	op.Expected = int64(len(frame))
	lost := op.Production.Lost
	op.Production = op.Private.(*opData).answer(frame, plain, nil)
	op.Production.Lost = lost
	op.Production.Took = at.Sub(tx.at)
	r.extendScriptTTLs(op, tx.queued, at)
	r.markManaged(op)
	if done = append(done, op); selected != nil {
		done = append(done, selected)
	}
	return done
}

// unwatchedKeys returns the keys of a transaction that may be expired before it. Those that it watches have
// not expired, or it would have been aborted.
func (r *reader) unwatchedKeys(queued []request, watched []string) (names []string) {
	for _, q := range queued {
		keys, _ := q.keysOf(q.args)
		for _, k := range keys {
			if name := nameOf(r.db, k); !slices.Contains(watched, name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// unwatch releases at the targets what WATCH has set up.
func (r *reader) unwatch() []*shadow.Operation {
	return []*shadow.Operation{{
		Kind: shadow.Write, Blocks: true, Name: "UNWATCH", Request: resp.AppendCommand(nil, "UNWATCH"),
		Production: shadow.Answer{Lost: true}, // production was not asked
	}}
}

// maxNamed limits the commands in a transaction's name.
const maxNamed = 8

// transactionOperation returns a transaction as one operation, and its last SELECT, if any, which is the
// connection's state from now on.
func (r *reader) transactionOperation(queued []request, frame []byte, at time.Time) (op, selected *shadow.Operation) {
	_, body := head(frame)
	replies := elements(body, 1)
	op = &shadow.Operation{Kind: shadow.Write, Name: "MULTI", Request: resp.AppendCommand(nil, "MULTI"), Replies: 2}
	o := &opData{}
	op.Private = o
	for i, q := range queued {
		if q.skip || i >= len(replies) {
			op.Production.Lost = true // targets return fewer answers than production did
			continue
		}
		if code := productionErrorCode(replies[i]); code != "" {
			op.Production.Lost, op.ReplacedReason = true, productionErrorPrefix+code
			continue
		}
		one := r.operation(q)
		if q.rewrite != nil {
			op.Production.Lost = true
			if !q.rewrite(one, q.args, replies[i]) {
				one.Check = shadow.Success
			}
		}
		o.parts = append(o.parts, part{one.Form, one.Check == shadow.Success})
		r.extendTTL(one, q, replies[i], at)
		if q.name == "select" && replies[i][0] == resp.Simple {
			r.trackState(q, one)
			selected = one
		}
		op.Request = append(op.Request, one.Request...)
		op.Replies++
		op.TouchesAll = op.TouchesAll || one.TouchesAll
		op.Keys = append(op.Keys, one.Keys...)
		if i < maxNamed {
			op.Name += " " + q.name
		}
	}
	op.Request = resp.AppendCommand(op.Request, "EXEC")
	return op, selected
}
