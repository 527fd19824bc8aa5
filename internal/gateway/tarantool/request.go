package tarantool

import (
	"bytes"
	"net"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// request is one request of the client's while it is handled. It is used again for the next,
// and borrows the bytes of the frame.
type request struct {
	bytes  []byte // the frame without its length
	header wire.Header
	body   wire.Body
	edits  []edit
	spans  []wire.Span // of an operation's parts
	seal   []byte      // a sealed value before its place is known
	magic  bool        // something in it begins like an envelope, perhaps
}

// refusal is an answer of ours in place of the server's.
type refusal struct {
	code wire.Type
	what string // counted by
	text string
}

func (r *refusal) Error() string { return r.text }

var magic = []byte(cinch.Magic)

// handleRequest sends one frame of the client's upstream, or answers it.
func (s *session) handleRequest(f *frame) error {
	began := time.Now()
	r := &s.req
	r.bytes = f.body()
	if err := r.header.Parse(r.bytes); err != nil {
		return s.toServer.write(f.bytes, f.held) // what the server says to it can't be known
	}
	switch h := handlingOf(r.header.Type); h {
	case passes:
		return s.pass(f)
	case oneWay:
		return s.toServer.write(f.bytes, f.held)
	case replicate:
		return s.pipe(f)
	default:
		return s.handleBody(f, h, began)
	}
}

// pass sends a request as it came.
func (s *session) pass(f *frame) error {
	if !s.push(exchange{kind: s.req.header.Type}) {
		return net.ErrClosed
	}
	return s.toServer.write(f.bytes, f.held)
}

func (s *session) push(e exchange) bool {
	return s.pending.push(s.req.header.Sync, e, s.toServer.flush)
}

// handleBody handles a request whose body matters.
func (s *session) handleBody(f *frame, h handling, began time.Time) error {
	r := &s.req
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return s.refuse(&refusal{wire.ErrInvalid, "malformed", "Invalid MsgPack - packet body"})
	}
	switch h {
	case features:
		return s.handleID(f)
	case sql:
		if no := s.g.checkSQL(s.ctx, r); no != nil {
			return s.refuse(no)
		}
		return s.pass(f)
	}
	out, p, no := s.g.rewrite(s.ctx, r, h)
	if no != nil {
		return s.refuse(no)
	}
	if out == nil {
		return s.pass(f)
	}
	defer gateway.PutBuffer(out)
	e := exchange{kind: r.header.Type}
	if p != nil && !s.pending.keep(&e, f) {
		s.g.cfg.Stats.Error("budget")
		if r.magic {
			return s.refuse(&refusal{wire.ErrNoMemory, "budget", "cinch: the memory budget is used up"})
		}
		return s.pass(f)
	}
	if p != nil {
		e.stamp = p.version
	}
	e.spent = time.Since(began)
	if !s.push(e) {
		return net.ErrClosed
	}
	return s.toServer.write(out, f.held)
}

// refuse answers the request at hand with an error.
func (s *session) refuse(no *refusal) error {
	s.g.cfg.Stats.Guarded(no.what, "refused")
	return s.toClient.send(wire.AppendError(nil, s.req.header.Sync, s.g.catalog.seen.Load(), no.code, no.text))
}

// unsupported is the server's own form of saying that something is not possible.
func unsupported(what, format string) *refusal {
	return &refusal{wire.ErrUnsupported, what, "cinch does not support " + format}
}

// hasMagic looks whether anything in b may begin like an envelope.
func hasMagic(b []byte) bool { return bytes.Contains(b, magic) }
