package tarantool

import (
	"cmp"
	"slices"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
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

// edit is a value that may be sealed: a string or binary with its head.
type edit struct {
	at      int // of the head
	content wire.Span
	kind    wire.Kind
	rule    *policy.Rule // nil: it begins like an envelope and is wrapped
}

// maxEdits bounds the memory for a request's edits. Only what begins like envelopes throughout
// comes near.
const maxEdits = 64 << 10

// maxIdleEdits is what a session keeps room for.
const maxIdleEdits = 64

// parse reads header and body.
func (r *request) parse() error {
	if err := r.header.Parse(r.bytes); err != nil {
		return err
	}
	return r.body.Parse(r.bytes, r.header.Map.End())
}

// base is what the request counts fields from.
func (r *request) base() uint64 {
	base, _ := wire.Uint(r.body.IndexBase.Of(r.bytes))
	return base
}

// user is who an AUTH logs in.
func (r *request) user() string {
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err == nil {
		if name, ok := wire.Text(r.body.User.Of(r.bytes)); ok {
			return string(name)
		}
	}
	return notSure
}

// maxParts is how many parts an operation may have: a splice has five.
const maxParts = 8

// splices reports whether a request has an operation that cuts bytes, or something that can't be
// told from one.
func (r *request) splices() bool {
	at := r.body.Ops
	switch r.header.Type {
	case wire.Update:
		at = r.body.Tuple
	case wire.Upsert:
	default:
		return false
	}
	h, err := wire.ReadHead(r.bytes, at.At)
	if at.Len == 0 || err != nil || h.Kind != wire.Array {
		return false
	}
	next := h.Content.At
	for range h.Count {
		parts, end, err := wire.Elements(r.spans, r.bytes, next, maxParts)
		r.spans = parts
		if err != nil {
			return false // the server refuses it
		}
		if len(parts) > 0 {
			if op, ok := wire.Text(parts[0].Of(r.bytes)); ok && len(op) > 0 && (op[0] == ':' || op[0] == '!' || op[0] == '#') {
				return true
			}
		}
		next = end
	}
	return false
}

// apply makes the request with its edits, and that stamp if it isn't 0; nil when nothing changed.
func (r *request) apply(v *vault, stamp uint64) []byte {
	slices.SortFunc(r.edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	out := wire.BeginFrame(gateway.GetBuffer(len(r.bytes) + 64))
	last := 0
	if stamp != 0 {
		out = wire.AppendStamped(out, r.bytes, &r.header, stamp)
		last = r.header.Map.End()
	}
	changed := false
	for i := range r.edits {
		e := &r.edits[i]
		value := e.content.Of(r.bytes)
		sealed := v.seal(r.seal[:0], value, e.rule, r.login)
		r.seal = sealed
		if !cinch.IsSealed(sealed) {
			continue
		}
		out = append(out, r.bytes[last:e.at]...)
		out = append(wire.AppendHead(out, e.kind, len(sealed)), sealed...)
		last, changed = e.content.End(), true
	}
	gateway.PutBuffer(r.seal)
	r.seal = nil
	if cap(r.edits) > maxIdleEdits {
		defer func() { r.edits = nil }()
	}
	if !changed {
		gateway.PutBuffer(out)
		return nil
	}
	return wire.FinishFrame(append(out, r.bytes[last:]...), 0)
}

// stamped is the request as it came, with a stamp, in a buffer of the pool's.
func (r *request) stamped(stamp uint64) []byte {
	out := wire.BeginFrame(gateway.GetBuffer(len(r.bytes) + 32))
	out = wire.AppendStamped(out, r.bytes, &r.header, stamp)
	return wire.FinishFrame(append(out, r.bytes[r.header.Map.End():]...), 0)
}
