package tarantool

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// An UPDATE that cuts the bytes of sealed fields, or moves sealed fields to where the server
// computes on them, is carried out in steps, on the client's own connection and in its stream:
// the tuple is read, its values are opened, the operations are made to fit these (operate.go), and
// a stored function updates the tuple if it still is the one that was read. If it is not, the
// function answers with what it is now, and so on. The reply to the last step is the client's.
//
//	client   UPDATE ------------------------------------------------------------> reply
//	gateway  cinch_update(nothing expected)      cinch_update(tuple, operations)
//	server                           the tuple                              the new tuple

// splice is such a request.
type splice struct {
	sync    uint64 // the client's
	stream  uint64
	kind    wire.Type
	own     bool   // the client stamped it itself
	stamp   uint64 // of the step at work
	began   time.Time
	missing *refusal // the answer where the stored function is not there
	answers chan stepAnswer
}

// stepAnswer is what the reply pump has to say about a step.
type stepAnswer struct {
	done    bool   // the client has its answer
	moved   bool   // the schema has
	tuple   []byte // what is stored, in a buffer of the pool's; nil: it is to be read again
	release int64  // bytes of the request budget for that and what is made of it
}

const (
	// maxSteps is how often a tuple may change under a request before it is given up.
	maxSteps = 200
	// patientSteps come at once. Later ones come after a pause, so that writers with a longer way
	// to the server have a chance.
	patientSteps = 10
	longestPause = 5 * time.Millisecond
)

// park hands the request at hand to who sends it in steps.
func (s *session) park(f *frame) error {
	e := s.exchange(0)
	if !s.pending.keep(&e, f, 3) {
		s.g.cfg.Stats.Error("budget")
		return s.refuse(noMemory)
	}
	if _, ok := s.enter(true); !ok {
		s.pending.drop(&e)
		return net.ErrClosed
	}
	if s.pending.park(s.req.header.Sync, e) {
		s.background.Add(1)
		go s.sendParked(e.stream)
	}
	return nil
}

var noMemory = &refusal{wire.ErrNoMemory, "budget", "cinch: the memory budget is used up"}

// spliceParked carries out a parked request whose operations need what is stored.
func (s *session) spliceParked(p *parked, r *request, w rewritten) (done bool, err error) {
	if ok, err := s.pending.alone(p.stream, s.probe); !ok {
		return false, err
	}
	x := &splice{
		sync: p.sync, stream: p.stream, kind: p.kind, own: r.header.Schema != 0,
		began: time.Now(), missing: w.no, answers: make(chan stepAnswer, 1),
	}
	done, err = s.carryOut(x, r, w)
	if err == nil && !done { // by the next schema
		p.tries++
		return s.sendOne(p)
	}
	s.pending.drop(&p.exchange)
	return true, err
}

// carryOut does the steps. It reports false when the schema has moved.
func (s *session) carryOut(x *splice, r *request, w rewritten) (done bool, err error) {
	u, no := s.g.newUpdater(r, w)
	if no != nil {
		return true, s.refuseLate(x.sync, no)
	}
	u.client = s.client.RemoteAddr().String()
	x.stamp = w.plan.version
	var a stepAnswer
	for n := range maxSteps {
		sync := ownSync()
		u.server = s.serverVersion()
		frame, no := u.call(sync, a.tuple)
		s.in.Account.Release(a.release)
		gateway.PutBuffer(a.tuple)
		if no != nil {
			gateway.PutBuffer(frame)
			return true, s.refuseLate(x.sync, no)
		}
		if a, err = s.step(x, sync, frame); err != nil {
			return true, err
		}
		if a.done {
			s.g.cfg.Stats.Guarded(w.no.what, "updated")
			return true, nil
		}
		if a.moved {
			return false, nil
		}
		if n > patientSteps {
			pause(s.Context(), rand.N(longestPause))
		}
	}
	s.in.Account.Release(a.release)
	gateway.PutBuffer(a.tuple)
	return true, s.refuseLate(x.sync, &refusal{wire.ErrConflict, w.no.what, "Transaction has been aborted by conflict"})
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// step sends a call, whose frame it gives back, and waits for what becomes of it.
func (s *session) step(x *splice, sync uint64, frame []byte) (a stepAnswer, err error) {
	defer gateway.PutBuffer(frame)
	if err := s.submitNow(sync, exchange{kind: wire.Call, splice: x}, frame); err != nil {
		return a, err
	}
	select {
	case a = <-x.answers:
		return a, nil
	case <-s.Dead():
	}
	select { // there may be an answer all the same, but none comes any more
	case a = <-x.answers:
		s.in.Account.Release(a.release)
	default:
	}
	return stepAnswer{}, net.ErrClosed
}

// ownSync numbers a request of ours. No client's has that number, but by a chance that is none.
// It takes nine bytes in a frame, so another can be written in its place.
func ownSync() uint64 { return rand.Uint64() | 1<<63 }

// answerSplice handles the answer to a step.
func (s *session) answerSplice(f *frame, e *exchange) error {
	x, r := e.splice, &s.reply
	if r.header.SyncAt.Len != 9 {
		return wire.ErrMalformed
	}
	binary.BigEndian.PutUint64(r.bytes[r.header.SyncAt.At+1:], x.sync)
	r.header.Sync = x.sync
	if r.header.Type == wire.ErrorFlag|wire.ErrSchemaVersion && !x.own {
		s.g.catalog.refused(x.stamp)
		s.g.cfg.Stats.Error("schema_changed")
		x.answers <- stepAnswer{moved: true}
		return nil
	}
	a, again, no, err := s.readStep(x)
	switch {
	case err != nil:
		return err
	case no != nil:
		err = s.toClient.write(wire.AppendError(nil, x.sync, s.schema, no.code, no.text))
	case again:
		x.answers <- a
		return nil
	default:
		err = s.answer(f, &exchange{kind: x.kind})
		s.g.cfg.Stats.Latency(time.Since(x.began))
	}
	x.answers <- stepAnswer{done: true}
	return err
}

// readStep finds what the answer to a step says: that another is to be made, by the tuple that is
// stored, or what to answer in its place, or neither: it is the client's answer.
func (s *session) readStep(x *splice) (a stepAnswer, again bool, no *refusal, err error) {
	r := &s.reply
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return a, false, nil, err
	}
	switch {
	case r.header.Type == wire.OK:
		return s.readStored(x)
	case r.lacksFunction():
		no = x.missing
	case r.header.Type == wire.ErrorFlag|wire.ErrConflict && x.stream == 0: // no transaction of the client's
		again = true
	}
	return a, again, no, nil
}

// readStored finds the tuple that is stored in place of the expected one.
func (s *session) readStored(x *splice) (a stepAnswer, again bool, no *refusal, err error) {
	r := &s.reply
	answers, _, err := wire.Elements(nil, r.bytes, r.body.Data.At, 2)
	if err != nil || len(answers) < 2 {
		return a, false, nil, nil
	}
	r.kind = x.kind
	size, err := s.find() // what is stored, when it is opened
	if err != nil {
		return a, false, s.broken(err), nil
	}
	tuple := answers[1].Of(r.bytes)
	if cost := int64(3*len(tuple) + 2*size); cost > gateway.FreeBytes {
		if !s.in.Account.TryAcquire(cost) {
			s.g.cfg.Stats.Error("budget")
			return a, false, noMemory, nil
		}
		a.release = cost
	}
	a.tuple = append(gateway.GetBuffer(len(tuple)), tuple...)
	return a, true, nil, nil
}

// lacksFunction reports that our stored function is not there, or not for this user.
func (r *reply) lacksFunction() bool {
	text, _ := wire.Text(r.body.Error.Of(r.bytes))
	switch r.header.Type &^ wire.ErrorFlag {
	case wire.ErrAccessDenied, wire.ErrNoProcedure, wire.ErrNoFunction:
		return strings.Contains(string(text), store.UpdateFunction)
	}
	return false
}
