package tarantool

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
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

// splicer does the steps of one client's requests, in the goroutines of the retrier.
type splicer struct {
	talk   *conversation
	vault  *vault
	room   *gateway.Account // in the request budget
	ctx    context.Context  // ends with the session
	client net.Addr
}

const (
	// maxSteps is how often a tuple may change under a request before it is given up.
	maxSteps = 200
	// patientSteps come at once. Later ones come after a pause, so that writers with a longer way
	// to the server have a chance.
	patientSteps = 10
	longestPause = 5 * time.Millisecond
)

// carryOut does the steps of a request. It reports false when the schema has moved.
func (s *splicer) carryOut(p *parked, r *request, n need) (done bool, err error) {
	x := &splice{
		sync: p.sync, stream: p.stream, kind: p.kind, own: r.header.Schema != 0,
		began: time.Now(), trace: p.trace, missing: n.no, answers: make(chan stepAnswer, 1),
	}
	u, no := newUpdater(s.vault, r, n)
	if no != nil {
		return true, s.refuse(x, no)
	}
	u.client = s.client.String()
	x.stamp = n.all.version
	var a stepAnswer
	for i := range maxSteps {
		sync := ownSync()
		u.server = s.talk.serverVersion()
		began := x.trace.Now()
		frame, no := u.call(sync, a.tuple)
		s.letGo(&a)
		if no != nil {
			gateway.PutBuffer(frame)
			return true, s.refuse(x, no)
		}
		since(x.trace, "codec request", began)
		if a, err = s.step(x, sync, frame); err != nil {
			return true, err
		}
		if a.done {
			s.talk.stats.Guarded(n.no.what, "updated")
			return true, nil
		}
		if a.moved {
			return false, nil
		}
		if i > patientSteps {
			pause(s.ctx, rand.N(longestPause))
		}
	}
	s.letGo(&a)
	return true, s.refuse(x, &refusal{wire.ErrConflict, n.no.what, "Transaction has been aborted by conflict"})
}

// refuse answers a request with an error.
func (s *splicer) refuse(x *splice, no *refusal) error {
	refused(x.trace, no)
	return s.talk.refuse(x.sync, no)
}

// letGo gives back the memory of an answer.
func (s *splicer) letGo(a *stepAnswer) {
	s.room.Release(a.release)
	gateway.PutBuffer(a.tuple)
}

// step sends a call, whose frame it gives back, and waits for what becomes of it.
func (s *splicer) step(x *splice, sync uint64, frame []byte) (a stepAnswer, err error) {
	defer gateway.PutBuffer(frame)
	if err := s.talk.submitNow(sync, exchange{kind: wire.Call, splice: x, trace: x.trace}, frame); err != nil {
		return a, err
	}
	select {
	case a = <-x.answers:
		return a, nil
	case <-s.talk.dead:
	}
	select { // there may be an answer all the same, but none comes any more
	case a = <-x.answers:
		s.room.Release(a.release)
	default:
	}
	return stepAnswer{}, net.ErrClosed
}
