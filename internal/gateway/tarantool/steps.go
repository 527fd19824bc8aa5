package tarantool

import (
	"encoding/binary"
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// stepReader reads the answers to steps, for the reply pump.
type stepReader struct {
	opener *opener
	room   *gateway.Account // in the request budget
	stats  *gateway.Stats
}

// readdress makes the answer to a step one to the client's request.
func (r *reply) readdress(sync uint64) error {
	if r.header.SyncAt.Len != 9 {
		return wire.ErrMalformed
	}
	binary.BigEndian.PutUint64(r.bytes[r.header.SyncAt.At+1:], sync)
	r.header.Sync = sync
	return nil
}

// read finds what the answer to a step says: that another is to be made, by the tuple that is
// stored, or what to answer in its place, or neither: it is the client's answer.
func (s *stepReader) read(x *splice, r *reply) (a stepAnswer, again bool, no *refusal, err error) {
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return a, false, nil, err
	}
	switch {
	case r.header.Type == wire.OK:
		return s.readStored(x, r)
	case r.lacksFunction():
		no = x.missing
	case r.header.Type == wire.ErrorFlag|wire.ErrConflict && x.stream == 0: // no transaction of the client's
		again = true
	}
	return a, again, no, nil
}

// readStored finds the tuple that is stored in place of the expected one.
func (s *stepReader) readStored(x *splice, r *reply) (a stepAnswer, again bool, no *refusal, err error) {
	answers, _, err := wire.Elements(nil, r.bytes, r.body.Data.At, 2)
	if err != nil || len(answers) < 2 {
		return a, false, nil, nil
	}
	r.kind = x.kind
	size, err := s.opener.size(r) // what is stored, when it is opened
	if err != nil {
		return a, false, s.opener.broken(err), nil
	}
	tuple := answers[1].Of(r.bytes)
	if cost := int64(3*len(tuple) + 2*size); cost > gateway.FreeBytes {
		if !s.room.TryAcquire(cost) {
			s.stats.Error("budget")
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
