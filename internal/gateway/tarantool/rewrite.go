package tarantool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// edit is a value that may be sealed: a string or binary with its head.
type edit struct {
	at      int // of the head
	content wire.Span
	kind    wire.Kind
	rule    *policy.Rule // nil: it begins like an envelope and is wrapped
}

// rewritten is what goes upstream in place of a request.
type rewritten struct {
	bytes  []byte // in a buffer of the pool's; nil: it goes as it came
	stamp  uint64 // of ours, that is in it; 0: none
	splice *space // not nil: what it changes has to be read first, and bytes and stamp are not set
	plan   *plan  // for that
	no     *refusal
}

// rewrite seals the values of a request, whose header and body have been parsed. laneStamp is
// what the request has to carry; 0: the version by which it is rewritten, if it is.
func (g *Gateway) rewrite(ctx context.Context, r *request, h handling, laneStamp uint64) (w rewritten, no *refusal) {
	r.edits, r.magic = r.edits[:0], hasMagic(r.bytes)
	if h == calls {
		if g.collectArguments(r); len(r.edits) > 0 {
			w.bytes, w.stamp = g.apply(r, laneStamp), laneStamp
		}
		return w, nil
	}
	p := g.catalog.current(ctx)
	if p == nil && (r.magic || g.splices(r)) {
		p = g.catalog.need(ctx)
	}
	s, no := g.spaceOf(p, r)
	if s == nil || no != nil {
		return w, no
	}
	if r.header.Schema != 0 && r.header.Schema != p.version {
		return w, g.foreignVersion(r, s, h)
	}
	c, no := g.collect(p, s, r, h)
	if no == nil && c.needed != nil && s.blind && g.storesPlain(ctx, r, rewritten{splice: s, plan: p, no: c.needed}) {
		c.needed, c.fenced = nil, true
	}
	switch {
	case no != nil:
		return w, no
	case c.needed != nil:
		return rewritten{splice: s, plan: p, no: c.needed}, nil
	case len(r.edits) == 0 && !c.fenced:
		return w, nil
	}
	stamp := laneStamp
	if stamp == 0 {
		stamp = p.version
	}
	if len(r.edits) > 0 {
		w.bytes = g.apply(r, stamp)
	}
	own := r.header.Schema != 0 // the client's own stamp: the client is told when it is wrong
	if w.bytes == nil && c.fenced && !own {
		w.bytes = stamped(r, stamp)
	}
	if w.bytes != nil && !own {
		w.stamp = stamp
	}
	return w, nil
}

// spaceOf finds the space of a request. Without a plan only what can do no harm passes.
func (g *Gateway) spaceOf(p *plan, r *request) (*space, *refusal) {
	if p == nil {
		if g.cfg.Schema != nil && (r.magic || g.splices(r)) {
			return nil, &refusal{wire.ErrSystem, "splice", "cinch: the schema could not be read yet, so it can't be known whether this meets sealed fields"}
		}
		return nil, nil
	}
	id, _ := wire.Uint(r.body.SpaceID.Of(r.bytes))
	var name []byte
	if r.body.SpaceName.Len > 0 && r.body.SpaceID.Len == 0 {
		name, _ = wire.Text(r.body.SpaceName.Of(r.bytes))
	}
	if id > 1<<32-1 {
		return nil, nil
	}
	s := p.find(uint32(id), name)
	if s == nil && p.blindTo(uint32(id), name) && g.splices(r) {
		return nil, unsupported("splice", fmt.Sprintf("splices, insertions and deletions of fields in a space that the gateway's user may not see, as rules name one (%s): grant it the right to read that", p.unseen[0]))
	}
	return s, nil
}

// foreignVersion handles a request that the client stamped with another version than the
// plan's. The server refuses it, unless the schema moved just now. Nothing is sealed then.
func (g *Gateway) foreignVersion(r *request, s *space, h handling) *refusal {
	if r.magic || s.ruled && h != tuples && g.splices(r) {
		return &refusal{wire.ErrSchemaVersion, "splice", fmt.Sprintf("Wrong schema version, current: %d, in request: %d", g.catalog.seen.Load(), r.header.Schema)}
	}
	return nil
}

// collect finds what to seal in a tuple or in operations, and what else there is to know of these.
func (g *Gateway) collect(p *plan, s *space, r *request, h handling) (c collector, no *refusal) {
	if len(s.fields) == 0 && !r.magic {
		return c, nil
	}
	c = collector{plan: p, space: s, r: r, b: r.bytes}
	if h != updates {
		if no := c.tuple(r.body.Tuple); no != nil {
			return c, no
		}
	}
	switch h {
	case updates:
		no = c.operations(r.body.Tuple)
	case upserts:
		no = c.operations(r.body.Ops)
	}
	return c, no
}

// collector finds the values of a request to one space.
type collector struct {
	plan  *plan
	space *space
	r     *request
	b     []byte

	// needed is not nil when the operations can't be carried out without what is stored, and says
	// what to answer where that is impossible.
	needed *refusal
	moved  bool // an operation moves fields
	fenced bool // one that cuts or moves is right only as long as fields have the rules that they have
}

// tuple looks at the fields of a tuple.
func (c *collector) tuple(at wire.Span) *refusal {
	if at.Len == 0 {
		return nil
	}
	h, err := wire.ReadHead(c.b, at.At)
	if err != nil || h.Kind != wire.Array {
		return nil // the server refuses it
	}
	count := h.Count
	if !c.r.magic {
		count = min(count, len(c.space.fields))
	}
	next := h.Content.At
	for n := range count {
		end, err := wire.Skip(c.b, next)
		if err != nil {
			return nil // can't be: the body was walked through
		}
		if no := c.value(n, wire.Span{At: next, Len: end - next}); no != nil {
			return no
		}
		next = end
	}
	return nil
}

// value looks at what becomes the field at a position from 0.
func (c *collector) value(position int, v wire.Span) *refusal {
	h, err := wire.ReadHead(c.b, v.At)
	if err != nil {
		return nil
	}
	if h.Kind != wire.String && h.Kind != wire.Binary {
		return c.nested(position, v)
	}
	e := edit{at: v.At, content: h.Content, kind: h.Kind}
	f := c.space.at(position)
	if !c.plan.off {
		e.rule = f.rule(h.Content.Len)
	}
	if e.rule == nil {
		if !cinch.IsSealed(h.Content.Of(c.b)) {
			return nil
		}
		if why := c.space.touchedAt(position); why != "" {
			return unsupported("magic", fmt.Sprintf("values that begin like its envelopes in field %d of space %s: %s", position+1, c.space.Name, why))
		}
	}
	if len(c.r.edits) >= maxEdits {
		return unsupported("magic", fmt.Sprintf("over %d values to seal in a request", maxEdits))
	}
	c.r.edits = append(c.r.edits, e)
	return nil
}

// maxEdits bounds the memory for a request's edits. Only what begins like envelopes throughout
// comes near.
const maxEdits = 64 << 10

// nested looks for what begins like an envelope within arrays and maps, where nothing is
// wrapped.
func (c *collector) nested(position int, v wire.Span) *refusal {
	if !c.r.magic {
		return nil
	}
	for s := wire.NewStrings(c.b, v); s.Next(); {
		if cinch.IsSealed(s.Content.Of(c.b)) {
			return unsupported("magic", fmt.Sprintf("values that begin like its envelopes within an array or map (field %d of space %s)", position+1, c.space.Name))
		}
	}
	return nil
}

// apply makes the request with its edits, and that stamp if it isn't 0; nil when nothing changed.
func (g *Gateway) apply(r *request, stamp uint64) []byte {
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
		sealed := g.seal(r.seal[:0], value, e.rule, r.login)
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
func stamped(r *request, stamp uint64) []byte {
	out := wire.BeginFrame(gateway.GetBuffer(len(r.bytes) + 32))
	out = wire.AppendStamped(out, r.bytes, &r.header, stamp)
	return wire.FinishFrame(append(out, r.bytes[r.header.Map.End():]...), 0)
}

// maxIdleEdits is what a session keeps room for.
const maxIdleEdits = 64

// seal appends the envelope of a value that a login writes, or the value itself.
func (g *Gateway) seal(dst, value []byte, rule *policy.Rule, login string) []byte {
	if dst == nil {
		dst = gateway.GetBuffer(len(value) + cinch.MaxHeaderLen + 512)
	}
	var st codec.Setting
	var worth func(raw, sealed int) bool
	if rule != nil {
		st, worth = rule.SettingFor(login), rule.WorthFunc(policy.Tuple)
		if st.Dict != 0 && (g.cfg.Dicts == nil || !g.cfg.Dicts.Ready(st.Dict)) {
			st.Dict = 0
		}
	}
	began := time.Now()
	out := g.sealer.Seal(dst, value, st, worth)
	g.countSeal(rule, st.Codec, len(value), out, time.Since(began))
	if rule != nil && g.cfg.Sampler != nil && login != notSure {
		g.cfg.Sampler.Sample(rule, login, nil, value, len(out))
	}
	return out
}

func (g *Gateway) countSeal(rule *policy.Rule, id codec.ID, raw int, stored []byte, d time.Duration) {
	stats := g.cfg.Stats
	h, err := cinch.ParseHeader(stored)
	switch {
	case rule == nil:
		stats.Sealed("escape", codec.Raw, raw, len(stored), d)
	case err == nil:
		stats.Sealed(rule.Name, h.Codec, raw, len(stored), d)
	default:
		stats.SealTime(rule.Name, id, d)
		reason := "no_gain"
		if raw > g.cfg.MaxSeal {
			reason = "too_big"
		}
		stats.Left(rule.Name, reason, raw)
	}
}
