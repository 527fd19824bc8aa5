package tarantool

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// request is the client's request that is handled. A session reuses one for all its requests.
type request struct {
	bytes  []byte // the frame without its length
	header wire.Header
	body   wire.Body      // parsed if its handling needs it
	trace  *trace.Command // nil: not traced
	login  string         // the user that sent it; see identity
	edits  []edit
	spans  []wire.Span // scratch space for the parts of an operation
	magic  bool        // a value in it may begin like an envelope; valid for requests with a tuple or operations
}

// edit is a value that may be compressed: a string or binary with its head.
type edit struct {
	at      int // position of the head
	content wire.Span
	kind    wire.Kind
	rule    *policy.Rule // nil: the value begins like an envelope and is wrapped
}

// maxEdits limits the number of a request's edits, and so their memory. Only requests full of values that begin like
// envelopes come near it.
const maxEdits = 64 << 10

// maxIdleEdits limits the capacity, in edits, of the list that a session keeps from one request to the next.
const maxIdleEdits = 64

// rewriteRoom returns the size in bytes of the buffer for rewriting a request of n bytes: it has room for a stamp, for
// the longest head and envelope header of a value, and for the additional bytes that a codec may need while it
// compresses a value (see envelope.MaxSealedLen).
func rewriteRoom(n int) int { return n + n>>7 + 256 }

// rewritten is the result of rewriting a request.
type rewritten struct {
	bytes      []byte   // in a pooled buffer; nil: the request is sent unchanged
	stamp      uint64   // schema version that the gateway put into bytes; 0: none
	needsStamp bool     // the request needs a stamp: with another schema its operations might cut an envelope
	sealed     bool     // values in bytes are compressed or wrapped
	tupleHash  uint64   // hash of the tuple in bytes, of an INSERT or REPLACE with sealed values and a stamp; 0: none
	steps      stepPlan // if steps.space is set, the request is carried out in steps, and bytes is nil
}

// schemaStamp is the version of the schema that the gateway puts into a request. A server with another
// version refuses the request.
type schemaStamp struct {
	version  uint64 // 0: none
	required bool   // the request carries it even if no value in it is compressed
}

// stepPlan tells how to carry out a request whose operations need the stored tuple (steps.go).
type stepPlan struct {
	space      *space // nil: no steps are needed
	spaces     *spaces
	noFunction *refusal // the error if the stored function does not exist
	// onlyIfPlain means that the operations only cut fields without rules. The first step carries them out, unless
	// the stored tuple holds an envelope, from a gateway with other rules.
	onlyIfPlain bool
}

// rewrite returns the frame to send in place of a request, whose body has been parsed if its handling requires that.
// queueStamp is the stamp that requests of its queue carry now. If it is 0, a rewritten request gets the version of
// the schema by which it was rewritten.
func (g *Gateway) rewrite(ctx context.Context, r *request, h handling, queueStamp uint64) (out rewritten, refused *refusal) {
	r.edits = r.edits[:0]
	var stamp schemaStamp
	switch h {
	case sql:
		refused = g.checkSQL(ctx, r)
	case calls:
		stamp, refused = g.collectCall(ctx, r)
	case tuples, updates, upserts:
		var c collector
		if c, refused = g.collectTuple(ctx, r, h); refused == nil && c.stepsError() != nil {
			return rewritten{steps: stepPlan{space: c.space, spaces: c.spaces, noFunction: c.stepsError(), onlyIfPlain: c.stepsRefusal == nil}}, nil
		}
		if c.spaces != nil {
			stamp = schemaStamp{version: c.spaces.version, required: c.needsStamp}
		}
	}
	if refused != nil {
		return out, refused
	}
	out.needsStamp = stamp.required
	// The queue's stamp has precedence over the gateway's. A stamp of the client has precedence over both, so that
	// the client learns if it is wrong.
	switch {
	case r.header.Schema != 0:
		stamp = schemaStamp{}
	case queueStamp != 0:
		stamp = schemaStamp{version: queueStamp, required: true}
	}
	if out.bytes, out.sealed = r.apply(g.codec, stamp); out.bytes != nil {
		out.stamp = stamp.version
	}
	if out.sealed && out.stamp != 0 && h == tuples {
		out.tupleHash = r.tupleHash(out.bytes)
	}
	return out, nil
}

// collectTuple finds the values to compress in a tuple or in operations, and whether operations need steps or
// a stamp, by one snapshot of rules and schema. While no schema has been read, it refuses requests that might cut an
// envelope or hold a value that begins like one.
func (g *Gateway) collectTuple(ctx context.Context, r *request, h handling) (c collector, refused *refusal) {
	r.magic = hasMagic(r.bytes)
	all := g.catalog.current(ctx)
	if all == nil && (r.magic || r.hasSplice()) {
		if all = g.catalog.awaitSpaces(ctx); all == nil && g.catalog.readsSchema() {
			return c, schemaUnknown
		}
	}
	if all == nil {
		return c, nil
	}
	s, refused := all.spaceOf(r)
	switch {
	case refused != nil:
		return c, refused
	case s == nil: // the space is newer than the schema, and may hold envelopes of other gateways
		return collector{spaces: all, needsStamp: r.hasSplice()}, nil
	case r.header.Schema != 0 && r.header.Schema != all.version:
		// The server refuses the request, unless the schema has just changed. So nothing is compressed.
		if r.magic || (s.ruled || all.callRules != nil || all.initialized) && h != tuples && r.hasSplice() {
			return c, wrongVersion(g.catalog.seenVersion.Load(), r)
		}
		return c, nil
	case len(s.fields) == 0 && !r.magic && (h == tuples || all.callRules == nil && !all.initialized):
		return c, nil
	}
	c = collector{spaces: all, space: s, r: r, b: r.bytes}
	if h != updates {
		refused = c.addTuple(r.body.Tuple)
	}
	switch {
	case refused != nil:
	case h == updates:
		refused = c.addOperations(r.body.Tuple)
	case h == upserts:
		refused = c.addOperations(r.body.Ops)
	}
	if refused == nil && c.stepsRefusal != nil && s.touchesHidden && g.storesPlain(ctx, r, stepPlan{space: s, spaces: all, noFunction: c.stepsRefusal}) {
		c.stepsRefusal, c.needsStamp = nil, true
	}
	return c, refused
}

// spaceOf returns the space of a request; nil if it is not among all. It refuses a splice in a space that the gateway's
// user may not see and that may hold envelopes.
func (all *spaces) spaceOf(r *request) (*space, *refusal) {
	id, _ := wire.Uint(r.body.SpaceID.Of(r.bytes))
	if id > 1<<32-1 {
		return nil, nil
	}
	s, name := all.byID[uint32(id)], []byte(nil)
	if r.body.SpaceName.Len > 0 && r.body.SpaceID.Len == 0 {
		if name, _ = wire.Text(r.body.SpaceName.Of(r.bytes)); name != nil {
			s = all.byName[string(name)]
		}
	}
	if s == nil && all.isHidden(uint32(id), name) && r.hasSplice() {
		return nil, unsupported("splice", fmt.Sprintf("splices, insertions and deletions of fields in a space that the gateway's user may not read: %s; grant it the right to read that space", all.hiddenReason()))
	}
	return s, nil
}

// collector finds the values of a request to one space.
type collector struct {
	spaces *spaces
	space  *space
	r      *request
	b      []byte

	// stepsRefusal is set if the operations need the stored tuple: it is the error if they can't be carried out in
	// steps. Nil: they don't need the tuple.
	stepsRefusal *refusal
	onlyIfPlain  *refusal // the same for operations that only cut fields without rules
	moved        bool     // an operation moves fields
	needsStamp   bool     // an operation cuts or moves fields, which is correct only with this schema
}

// stepsError returns stepsRefusal or onlyIfPlain; nil if the operations don't need the stored tuple.
func (c *collector) stepsError() *refusal { return cmp.Or(c.stepsRefusal, c.onlyIfPlain) }

// addTuple examines the fields of a tuple.
func (c *collector) addTuple(at wire.Span) *refusal {
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
			return nil // can't happen: the body has been parsed
		}
		if refused := c.addValue(n, wire.Span{At: next, Len: end - next}); refused != nil {
			return refused
		}
		next = end
	}
	return nil
}

// addValue examines the value v that becomes the field at a position, counted from 0.
func (c *collector) addValue(position int, v wire.Span) *refusal {
	h, err := wire.ReadHead(c.b, v.At)
	if err != nil {
		return nil
	}
	if h.Kind != wire.String && h.Kind != wire.Binary {
		if c.r.magic && holdsEnvelope(c.b, v) {
			return unsupported("magic", fmt.Sprintf("values that begin like its envelopes within an array or map (field %d of space %s)", position+1, c.space.Name))
		}
		return nil
	}
	e := edit{at: v.At, content: h.Content, kind: h.Kind}
	f := c.space.at(position)
	if !c.spaces.disabled {
		e.rule = f.rule(h.Content.Len)
	}
	if e.rule == nil {
		if !envelope.IsSealed(h.Content.Of(c.b)) {
			return nil
		}
		if why := c.space.touchedAt(position); why != "" {
			return unsupported("magic", fmt.Sprintf("values that begin like its envelopes in field %d of space %s: %s", position+1, c.space.Name, why))
		}
	}
	if len(c.r.edits) >= maxEdits {
		return unsupported("magic", fmt.Sprintf("over %d values to compress in a request", maxEdits))
	}
	c.r.edits = append(c.r.edits, e)
	return nil
}

// holdsEnvelope reports whether a string in the span begins like an envelope, or values there can't be read.
func holdsEnvelope(b []byte, at wire.Span) bool {
	s := wire.NewStrings(b, at)
	for s.Next() {
		if envelope.IsSealed(s.Content.Of(b)) {
			return true
		}
	}
	return s.Err() != nil
}

// base returns the number that the first field has in the request's operations; 0 by default.
func (r *request) base() uint64 {
	base, _ := wire.Uint(r.body.IndexBase.Of(r.bytes))
	return base
}

// user returns the name of the user in an AUTH; loginPending if it can't be read.
func (r *request) user() string {
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err == nil {
		if name, ok := wire.Text(r.body.User.Of(r.bytes)); ok {
			return string(name)
		}
	}
	return loginPending
}

// maxParts limits the parts of an operation: a splice has five.
const maxParts = 8

// hasSplice reports whether a request has an operation that cuts bytes or moves fields, or an argument that can't be
// distinguished from such an operation.
func (r *request) hasSplice() bool {
	at := r.body.Ops
	switch r.header.Type {
	case wire.Update:
		at = r.body.Tuple
	case wire.Upsert:
	case wire.Call, wire.Call16, wire.Eval:
		return r.hasNestedSplice()
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

var longestHead [maxHead]byte

// apply returns the frame to send to the server, in a pooled buffer: the request with its values compressed and with
// the stamp. sealed reports whether a value was compressed or wrapped. The frame is nil if none was, unless the stamp
// is required.
func (r *request) apply(v *valueCodec, stamp schemaStamp) (frame []byte, sealed bool) {
	if len(r.edits) == 0 && !stamp.required {
		return nil, false
	}
	slices.SortFunc(r.edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	out := wire.BeginFrame(memory.GetBuffer(rewriteRoom(len(r.bytes))))
	last := 0
	if stamp.version != 0 {
		out = wire.AppendStamped(out, r.bytes, &r.header, stamp.version)
		last = r.header.Map.End()
	}
	for i := range r.edits {
		e := &r.edits[i]
		out = append(out, r.bytes[last:e.at]...)
		head, value := len(out), len(out)+maxHead // room for the longest head comes first; the real head closes the gap
		var did bool
		if out, did = v.encode(append(out, longestHead[:]...), e.content.Of(r.bytes), e.rule, r.login); !did {
			out, last = out[:head], e.at
			continue
		}
		end := len(wire.AppendHead(out[:head], e.kind, len(out)-value))
		out = out[:end+copy(out[end:], out[value:])]
		last, sealed = e.content.End(), true
	}
	if !sealed && !stamp.required {
		memory.PutBuffer(out)
		return nil, false
	}
	return wire.FinishFrame(append(out, r.bytes[last:]...), 0), sealed
}

// hashSeed is random, so that clients can't choose tuples with equal hashes.
var hashSeed = maphash.MakeSeed()

// tupleHash returns the hash of the tuple in frame, which is the request with sealed values in its tuple. Behind the
// tuple both have the same bytes, and so they have between header and tuple.
func (r *request) tupleHash(frame []byte) uint64 {
	var h wire.Header
	if h.Parse(frame[wire.PrefixLen:]) != nil {
		return 0 // can't happen: the gateway has just written it
	}
	start := wire.PrefixLen + h.Map.End() + r.body.Tuple.At - r.header.Map.End()
	end := len(frame) - (len(r.bytes) - r.body.Tuple.End())
	return maphash.Bytes(hashSeed, frame[start:end])
}

// If the gateway's user may not see the constraints on fields, nothing is compressed. But values may have been
// compressed before, or by a gateway with another user. So an operation that would cut or move compressed bytes is
// sent unchanged only if the stored tuple holds none. Clients of this gateway write only uncompressed values meanwhile.

// storesPlain reports whether the tuple that a request changes holds no compressed value, or does not exist.
func (g *Gateway) storesPlain(ctx context.Context, r *request, plan stepPlan) bool {
	if g.cfg.ReadTuple == nil {
		return false
	}
	u, refused := newUpdater(g.codec, r, plan)
	if refused != nil {
		return false
	}
	tuple, err := g.cfg.ReadTuple(ctx, u.space.ID, u.index, u.key)
	return err == nil && !holdsEnvelope(tuple, wire.Span{Len: len(tuple)})
}
