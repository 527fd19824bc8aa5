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
	login  string      // whose values are in it; see identity
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
		return s.toServer.write(f.bytes) // what the server says to it can't be known
	}
	switch h := handlingOf(r.header.Type); h {
	case passes:
		return s.pass(f, began)
	case oneWay:
		return s.toServer.write(f.bytes)
	case replicate:
		return s.pipe(f)
	default:
		return s.handleBody(f, h, began)
	}
}

// pass sends a request as it came, but for the stamp that its lane may ask for.
func (s *session) pass(f *frame, began time.Time) error {
	r := &s.req
	var stamp uint64
	if ordered(r.header.Type) || r.header.Type == wire.Auth {
		var ok bool
		// Steps and what is sent again are the old user's.
		if stamp, ok = s.enter(r.header.Schema != 0 || r.header.Type == wire.Auth); !ok {
			return net.ErrClosed
		}
	}
	if r.header.Type == wire.Auth {
		s.identity.asked(r)
	}
	return s.passStamped(f, stamp, began)
}

// passStamped sends a request as it came, with that stamp if it isn't 0.
func (s *session) passStamped(f *frame, stamp uint64, began time.Time) error {
	if stamp == 0 {
		return s.passAlone(f)
	}
	e := s.exchange(stamp)
	if !s.pending.keep(&e, f, 0) {
		if _, ok := s.enter(true); !ok {
			return net.ErrClosed
		}
		return s.passAlone(f)
	}
	out := stamped(&s.req, stamp)
	defer gateway.PutBuffer(out)
	return s.forward(out, e, began)
}

func (s *session) passAlone(f *frame) error {
	return s.submit(s.exchange(0), f.bytes)
}

// exchange is that of the request at hand.
func (s *session) exchange(stamp uint64) exchange {
	return exchange{kind: s.req.header.Type, stream: s.req.header.Stream, stamp: stamp}
}

// forward sends what takes the request's place.
func (s *session) forward(out []byte, e exchange, began time.Time) error {
	e.spent = time.Since(began)
	return s.submit(e, out)
}

// submit sends the request at hand, or what takes its place.
func (s *session) submit(e exchange, frame []byte) error {
	return s.submitAs(s.req.header.Sync, e, frame)
}

// submitAs writes requests in the order in which they are noted.
func (s *session) submitAs(sync uint64, e exchange, frame []byte) error {
	s.submitting.Lock()
	defer s.submitting.Unlock()
	if !s.pending.push(sync, e, s.toServer.flush) {
		return net.ErrClosed
	}
	return s.toServer.write(frame)
}

// submitNow is submitAs and flush.
func (s *session) submitNow(sync uint64, e exchange, frame []byte) error {
	if err := s.submitAs(sync, e, frame); err != nil {
		return err
	}
	return s.toServer.flush()
}

// probe sends a PING behind the requests outside of streams. The server answers it when it has begun
// with these, though some may take long.
func (s *session) probe() error {
	sync := ownSync()
	return s.submitNow(sync, exchange{kind: wire.Ping, probe: true}, wire.AppendPing(nil, sync))
}

// enter waits for the lane of the request at hand.
func (s *session) enter(alone bool) (stamp uint64, ok bool) {
	return s.pending.enter(s.req.header.Stream, alone, s.toServer.flush, s.probe)
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
		if no := s.g.checkSQL(s.Context(), r); no != nil {
			return s.refuse(no)
		}
		return s.pass(f, began)
	}
	stamp, ok := s.enter(r.header.Schema != 0)
	if !ok {
		return net.ErrClosed
	}
	r.login = s.identity.login()
	w, no := s.g.rewrite(s.Context(), r, h, stamp)
	if no != nil {
		return s.refuse(no)
	}
	if w.splice != nil {
		return s.park(f)
	}
	if w.bytes == nil {
		return s.passStamped(f, stamp, began)
	}
	defer gateway.PutBuffer(w.bytes)
	e := s.exchange(w.stamp)
	if w.stamp != 0 && !s.pending.keep(&e, f, 0) {
		s.g.cfg.Stats.Error("budget")
		if r.magic {
			return s.refuse(&refusal{wire.ErrNoMemory, "budget", "cinch: the memory budget is used up"})
		}
		return s.passStamped(f, stamp, began)
	}
	return s.forward(w.bytes, e, began)
}

// refuse answers the request at hand with an error.
func (s *session) refuse(no *refusal) error {
	return s.refuseLate(s.req.header.Sync, no)
}

// unsupported is the server's own form of saying that something is not possible.
func unsupported(what, format string) *refusal {
	return &refusal{wire.ErrUnsupported, what, "cinch does not support " + format}
}

// hasMagic looks whether anything in b may begin like an envelope.
func hasMagic(b []byte) bool { return bytes.Contains(b, magic) }
