package mongo

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// maxHeld limits the bytes of a connection's unanswered requests and incomplete messages.
const maxHeld = 160 << 20

// reader parses one client's connection.
type reader struct {
	p          *Protocol
	requests   frames
	replies    frames
	pending    map[int32]*request
	held       int64 // bytes of pending
	unanswered []*shadow.Operation
	at         time.Time
	done       []*shadow.Operation
}

// Held returns the number of bytes that are buffered.
func (r *reader) Held() int64 { return int64(cap(r.requests.in)+cap(r.replies.in)) + r.held }

// Request takes bytes that the client sent.
func (r *reader) Request(b []byte, at time.Time) error {
	r.at = at
	if err := r.requests.take(b, r.ask); err != nil {
		return err
	}
	return r.check()
}

// Unanswered returns the operations of requests that servers don't answer. They are numbered in the order in
// which they were sent.
func (r *reader) Unanswered() []*shadow.Operation {
	ops := r.unanswered
	r.unanswered = nil
	return ops
}

// Reply takes bytes that the server sent.
func (r *reader) Reply(b []byte, at time.Time) ([]*shadow.Operation, error) {
	r.at, r.done = at, nil
	if err := r.replies.take(b, r.answer); err != nil {
		return r.done, err
	}
	return r.done, r.check()
}

func (r *reader) check() error {
	if r.Held() > maxHeld {
		return shadow.ErrTooLarge
	}
	return nil
}

func (r *reader) ask(h wire.Header, raw []byte) error {
	m, name, err := command(h, raw)
	if err != nil {
		return err
	}
	c := classOf(name)
	if c == nothing {
		return nil
	}
	q := newRequest(m, name, c, r.at)
	if m.moreToCome() {
		r.unanswered = append(r.unanswered, r.p.answered(q, fine, r.at)...)
		for _, op := range r.unanswered {
			op.Production = shadow.Answer{Lost: true}
		}
		return nil
	}
	if before := r.pending[m.RequestID]; before != nil {
		r.held -= before.size
	}
	r.pending[m.RequestID] = q
	r.held += q.size
	return nil
}

// command parses a request and returns the command's name.
func command(h wire.Header, raw []byte) (m message, name string, err error) {
	if m, err = parse(h, raw); err != nil {
		return m, "", err
	}
	first, ok := wire.First(m.body)
	if m.body == nil || !ok {
		return m, "", fmt.Errorf("%w: messages of servers older than 5.1", shadow.ErrUnmirrored)
	}
	name = string(first.Key)
	if m.OpCode != wire.OpMsg && classOf(name) != nothing {
		return m, name, fmt.Errorf("%w: %s in a message of servers older than 5.1", shadow.ErrUnmirrored, name)
	}
	return m, name, nil
}

// fine is {ok: 1}, used as the answer to requests that get none.
var fine = []byte("\x0d\x00\x00\x00\x10ok\x00\x01\x00\x00\x00\x00")

func parseReply(h wire.Header, raw []byte) (message, error) {
	m, err := parse(h, raw)
	if err == nil && m.body == nil {
		err = fmt.Errorf("%w: a reply without a document", wire.ErrMalformed)
	}
	return m, err
}

// answer processes a reply. Replies to requests that are not mirrored are skipped.
func (r *reader) answer(h wire.Header, raw []byte) error {
	q := r.pending[h.ResponseTo]
	if q == nil {
		return nil
	}
	delete(r.pending, h.ResponseTo)
	m, err := parseReply(h, raw)
	if err != nil {
		return err
	}
	if m.moreToCome() { // as if the client had asked again
		r.pending[h.RequestID] = q.again(r.at)
	} else {
		r.held -= q.size
	}
	r.done = append(r.done, r.p.answered(q, m.body, r.at)...)
	return nil
}

// again returns the request for its next answer.
func (q *request) again(at time.Time) *request {
	next := *q
	next.at = at
	return &next
}
