package tarantool

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// An UPDATE or UPSERT that cuts the bytes of compressed fields, or moves compressed fields to positions where the
// server computes on them, is carried out in steps, on the client's upstream connection and in its stream. The
// first step reads the tuple. The gateway decompresses its values and adapts the operations to them
// (updater.go). Then a stored function updates the tuple if it has not changed since it was read. If it has, the
// function returns the current tuple and the gateway tries again. The client gets the reply to the last step.
//
//	client   UPDATE ------------------------------------------------------------> reply
//	gateway  cinch_update(nothing expected)      cinch_update(tuple, operations)
//	server                           the tuple                              the new tuple

const (
	// maxSteps limits the steps of a request. If other clients change the tuple so often, the request is refused.
	maxSteps = 200
	// patientSteps is the number of first steps that follow each other without a pause. Later steps come after a
	// random pause of up to longestPause, so that writers with a slower connection to the server have a chance.
	patientSteps = 10
	longestPause = 5 * time.Millisecond
)

// runSteps carries out the steps of a request, and sends the client a reply. It returns false if the schema has changed
// instead.
func (s *session) runSteps(p *parked, r *request, plan stepPlan) (done bool, err error) {
	x := &steppedRequest{
		sync: p.sync, stream: p.stream, kind: p.kind, clientStamped: r.header.Schema != 0,
		began: time.Now(), trace: p.trace, noFunction: plan.noFunction, answers: make(chan stepAnswer, 1),
	}
	u, refused := newUpdater(s.g.codec, r, plan)
	if refused != nil {
		return true, s.sendRefusal(x.sync, x.trace, refused)
	}
	u.client = s.Client.RemoteAddr().String()
	x.stamp = plan.spaces.version
	var a stepAnswer
	for i := range maxSteps {
		sync := newSync()
		if v := s.serverVersion.Load(); v != nil { // the first step may be sent before the server's greeting arrives
			u.server = *v
		}
		began := x.trace.Now()
		frame, refused := u.call(sync, a.tuple)
		s.releaseAnswer(&a)
		if refused != nil {
			memory.PutBuffer(frame)
			return true, s.sendRefusal(x.sync, x.trace, refused)
		}
		traceSince(x.trace, "codec request", began)
		if a, err = s.step(x, sync, frame); err != nil {
			return true, err
		}
		if a.done {
			s.g.cfg.Stats.Guarded(plan.noFunction.reason, "updated")
			return true, nil
		}
		if a.schemaChanged {
			return false, nil
		}
		if i >= patientSteps-1 {
			pause(s.Context(), rand.N(longestPause))
		}
	}
	s.releaseAnswer(&a)
	return true, s.sendRefusal(x.sync, x.trace, &refusal{wire.ErrConflict, plan.noFunction.reason, "Transaction has been aborted by conflict"})
}

// releaseAnswer gives back the memory of an answer.
func (s *session) releaseAnswer(a *stepAnswer) {
	s.Requests.Release(a.budgetBytes)
	memory.PutBuffer(a.tuple)
}

// step sends the frame of a step and waits for its answer. It puts the frame into the pool.
func (s *session) step(x *steppedRequest, sync uint64, frame []byte) (a stepAnswer, err error) {
	defer memory.PutBuffer(frame)
	if err = s.submit(sync, exchange{kind: wire.Call, stepped: x, trace: x.trace}, frame); err == nil {
		err = s.toServer.flush()
	}
	if err != nil {
		return a, err
	}
	select {
	case a = <-x.answers:
		return a, nil
	case <-s.RepliesDone():
	}
	select { // an answer may have arrived meanwhile, but none will arrive later
	case a = <-x.answers:
		s.Requests.Release(a.budgetBytes)
	default:
	}
	return stepAnswer{}, net.ErrClosed
}

// answerStep passes the answer to a step to the goroutine that sent the step. The answer to the last step is sent to
// the client. moved means that the server refused the step for its schema version.
func (s *session) answerStep(f *frame, x *steppedRequest, moved bool) error {
	r := &s.reply
	if err := r.setSync(x.sync); err != nil {
		return err
	}
	if moved {
		s.recordSchemaChange(x.stamp)
		x.answers <- stepAnswer{schemaChanged: true}
		return nil
	}
	a, again, refused, err := s.readStep(x, r)
	switch {
	case err != nil:
		return err
	case refused != nil:
		err = s.answerError(refused, x.trace)
	case again:
		x.answers <- a
		return nil
	default:
		err = s.answer(f, &exchange{kind: x.kind, trace: x.trace})
		s.g.cfg.Stats.Latency(time.Since(x.began))
	}
	x.answers <- stepAnswer{done: true}
	return err
}

// setSync replaces the sync in the answer to a step by the sync of the client's request.
func (r *reply) setSync(sync uint64) error {
	if r.header.SyncAt.Len != 9 {
		return wire.ErrMalformed
	}
	binary.BigEndian.PutUint64(r.bytes[r.header.SyncAt.At+1:], sync)
	r.header.Sync = sync
	return nil
}

// readStep evaluates the answer to a step. If another step is needed, again is true, and a holds the stored tuple. If
// the client gets an error of the gateway, refused is set. Otherwise the answer is the client's reply.
func (s *session) readStep(x *steppedRequest, r *reply) (a stepAnswer, again bool, refused *refusal, err error) {
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return a, false, nil, err
	}
	switch {
	case r.header.Type == wire.OK:
		return s.readStored(x, r)
	case r.lacksFunction():
		refused = x.noFunction
	case r.header.Type == wire.ErrorFlag|wire.ErrConflict && x.stream == 0: // in no stream, so in no transaction
		again = true
	}
	return a, again, refused, nil
}

// readStored reads from an answer the stored tuple if it differs from the expected one. Otherwise again is false.
func (s *session) readStored(x *steppedRequest, r *reply) (a stepAnswer, again bool, refused *refusal, err error) {
	answers, _, err := wire.Elements(nil, r.bytes, r.body.Data.At, 2)
	if err != nil || len(answers) < 2 {
		return a, false, nil, nil
	}
	r.kind = x.kind
	size, err := s.decodedSize(r) // size when decompressed
	if err != nil {
		return a, false, s.decodeError(err), nil
	}
	tuple := answers[1].Of(r.bytes)
	if cost := int64(3*len(tuple) + 2*size); cost > gateway.FreeBytes {
		if !s.Requests.TryAcquire(cost) {
			s.g.cfg.Stats.Error("budget")
			return a, false, noMemory, nil
		}
		a.budgetBytes = cost
	}
	a.tuple = append(memory.GetBuffer(len(tuple)), tuple...)
	return a, true, nil, nil
}

// lacksFunction reports whether the reply is the error that the gateway's stored function does not exist, or that the
// user may not call it.
func (r *reply) lacksFunction() bool {
	text, _ := wire.Text(r.body.Error.Of(r.bytes))
	switch r.header.Type &^ wire.ErrorFlag {
	case wire.ErrAccessDenied, wire.ErrNoProcedure, wire.ErrNoFunction:
		return strings.Contains(string(text), schema.UpdateFunction)
	}
	return false
}

// probe sends a PING after the requests that are in no stream. The reply shows that the server has begun all of these
// requests, and so checked their stamps, though some may take long.
func (s *session) probe() error {
	sync := newSync()
	if err := s.submit(sync, exchange{kind: wire.Ping, probe: true}, wire.AppendPing(nil, sync)); err != nil {
		return err
	}
	return s.toServer.flush()
}

// newSync returns a sync for a request of the gateway. It is random, so that it hardly ever equals a sync of the
// client. It takes nine bytes in a frame, so that any other sync can be written in its place.
func newSync() uint64 { return rand.Uint64() | 1<<63 }
