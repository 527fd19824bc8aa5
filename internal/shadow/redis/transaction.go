package redis

import (
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// transaction is a MULTI that production has accepted. It becomes one operation when EXEC is answered.
type transaction struct {
	at     time.Time
	queued []request
}

// inTransaction takes the reply to a request behind MULTI.
func (r *reader) inTransaction(q request, frame []byte, at time.Time) []*shadow.Operation {
	if !q.closes {
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
		return r.unwatch() // production aborted it, so there is nothing to carry out
	}
	op, selected := r.whole(tx.queued, frame)
	op.Keys = append(op.Keys, watched...) // a target that sees another's write to them aborts it
	slices.Sort(op.Keys)
	op.Keys = slices.Compact(op.Keys)
	op.Expected = int64(len(frame))
	op.Production = answerOf(frame, plain)
	op.Production.Took = at.Sub(tx.at)
	if selected == nil {
		return []*shadow.Operation{op}
	}
	return []*shadow.Operation{op, selected}
}

// unwatch ends what WATCH has begun at the targets.
func (r *reader) unwatch() []*shadow.Operation {
	return []*shadow.Operation{{Kind: shadow.Write, Blocks: true, Name: "UNWATCH", Request: resp.AppendCommand(nil, "UNWATCH")}}
}

// mostNamed is how many commands of a transaction its name has.
const mostNamed = 8

// whole is a transaction as one operation, and the SELECT that the connection's state is from now on, if it has one.
func (r *reader) whole(queued []request, frame []byte) (op, selected *shadow.Operation) {
	_, body := head(frame)
	replies := elements(body, 1)
	op = &shadow.Operation{Kind: shadow.Write, Name: "MULTI", Request: resp.AppendCommand(nil, "MULTI"), Replies: 2}
	for i, q := range queued {
		if q.skip || i >= len(replies) {
			op.Check = shadow.Success // the answers are not as many as production's
			continue
		}
		one := r.operation(q)
		if q.rewrite != nil && !q.rewrite(one, q.args, replies[i]) {
			op.Check = shadow.Success
		}
		if one.Check == shadow.Success || one.Form != plain {
			op.Check = shadow.Success
		}
		if q.name == "select" && replies[i][0] == resp.Simple {
			r.note(q, one)
			selected = one
		}
		op.Request = append(op.Request, one.Request...)
		op.Replies++
		op.Whole = op.Whole || one.Whole
		op.Keys = append(op.Keys, one.Keys...)
		if i < mostNamed {
			op.Name += " " + q.name
		}
	}
	op.Request = resp.AppendCommand(op.Request, "EXEC")
	return op, selected
}
