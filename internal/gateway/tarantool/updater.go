package tarantool

import (
	"fmt"
	"math"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// updater builds the calls of the stored function that carry out one UPDATE or UPSERT: the same operations in the
// same order, adapted to a tuple whose values are compressed. A splice stays a splice, so that the server's
// own rules for several operations on a field apply, but it replaces the whole field by the new value, compressed.
// Requests that the server would refuse are still refused.
type updater struct {
	codec  *valueCodec
	spaces *spaces
	space  *space
	r      request // with its values compressed
	index  uint32
	key    []byte // MessagePack
	ops    wire.Span
	base   int64 // number of the first field, and of the first offset, in the request
	stamp  uint64

	server      schema.Version // the server's version, which determines the operations that it accepts; zero: unknown
	onlyIfPlain bool           // see stepPlan

	client string // address of the client, for the log
}

// newUpdater returns an updater for a request that has to be carried out in steps.
func newUpdater(v *valueCodec, r *request, plan stepPlan) (*updater, *refusal) {
	u := &updater{codec: v, spaces: plan.spaces, space: plan.space, r: *r, stamp: plan.spaces.version, onlyIfPlain: plan.onlyIfPlain}
	u.r.edits, u.r.spans = nil, nil
	if out, _ := r.apply(v, schemaStamp{}); out != nil { // the request with its values compressed, in another buffer
		u.r.bytes = out[wire.PrefixLen:]
		if u.r.header.Parse(u.r.bytes) != nil || u.r.body.Parse(u.r.bytes, u.r.header.Map.End()) != nil {
			return nil, plan.noFunction // can't happen
		}
	}
	u.base = int64(min(u.r.base(), math.MaxInt32))
	if r.header.Type == wire.Upsert {
		return u, u.parseUpsert()
	}
	return u, u.parseUpdate()
}

// parseUpdate finds the operations, key and index of an UPDATE.
func (u *updater) parseUpdate() *refusal {
	b := &u.r.body
	u.ops, u.key = b.Tuple, b.Key.Of(u.r.bytes)
	if h, err := wire.ReadHead(u.r.bytes, b.Key.At); b.Key.Len == 0 || err != nil || h.Kind != wire.Array {
		return malformed
	}
	if b.IndexID.Len == 0 && b.IndexName.Len > 0 {
		return u.indexByName()
	}
	id, _ := wire.Uint(b.IndexID.Of(u.r.bytes))
	u.index = uint32(min(id, math.MaxInt32))
	return nil
}

func (u *updater) indexByName() *refusal {
	name, _ := wire.Text(u.r.body.IndexName.Of(u.r.bytes))
	for i := range u.space.Indexes {
		if u.space.Indexes[i].Name == string(name) {
			u.index = u.space.Indexes[i].ID
			return nil
		}
	}
	return unsupported("splice", fmt.Sprintf("index %q of space %s, which the gateway does not know", name, u.space.Name))
}

// parseUpsert finds the operations of an UPSERT, and builds the primary key from its tuple. The server refuses a key
// that is incomplete or does not fit the index.
func (u *updater) parseUpsert() *refusal {
	b := &u.r.body
	u.ops = b.Ops
	primary := u.space.Primary()
	if primary == nil {
		return unsupported("splice", fmt.Sprintf("space %s, which has no primary index", u.space.Name))
	}
	fields, refused := u.fields(nil, u.r.bytes, b.Tuple.At)
	if refused != nil || b.Tuple.Len == 0 {
		return malformed
	}
	var parts [][]byte
	for _, p := range primary.Parts {
		if p.Path != "" {
			return unsupported("splice", fmt.Sprintf("splices by UPSERT in space %s, whose primary key has a part at a path within a field: use UPDATE", u.space.Name))
		}
		if p.Field < len(fields) {
			parts = append(parts, fields[p.Field].Of(u.r.bytes))
		}
	}
	u.key = msgp.AppendArrayHeader(nil, uint32(len(parts)))
	for _, p := range parts {
		u.key = append(u.key, p...)
	}
	return nil
}

// maxFields limits the memory for the fields of one tuple.
const maxFields = 16 << 10

// fields returns the spans of a tuple's fields.
func (u *updater) fields(dst []wire.Span, b []byte, at int) ([]wire.Span, *refusal) {
	fields, _, err := wire.Elements(dst, b, at, maxFields)
	if err != nil {
		return nil, unsupported("splice", fmt.Sprintf("splices and moves in tuples of over %d fields (space %s)", maxFields, u.space.Name))
	}
	return fields, nil
}

// call returns the frame of a step, in a pooled buffer. tuple is the tuple that is expected to be stored. It is nil in
// the first step, which only reads the stored tuple if there is one. But if onlyIfPlain is set, the first step carries
// out the operations if the stored tuple does not contain envelope.Magic.
func (u *updater) call(sync uint64, tuple []byte) ([]byte, *refusal) {
	ops, refused := u.operations(tuple)
	defer memory.PutBuffer(ops)
	if refused != nil {
		return nil, refused
	}
	b := memory.GetBuffer(len(tuple) + len(ops) + len(u.r.bytes) + 256)
	args := 6
	if tuple == nil && u.onlyIfPlain {
		args = 7
	}
	b = wire.BeginCall(b, sync, u.stamp, u.r.header.Stream, schema.UpdateFunction, args)
	b = msgp.AppendUint32(b, u.space.ID)
	b = msgp.AppendUint32(b, u.index)
	b = msgp.AppendStringFromBytes(b, u.key)
	b = appendStringOrNil(b, tuple)
	b = msgp.AppendStringFromBytes(b, ops)
	if u.r.header.Type == wire.Upsert {
		b = msgp.AppendStringFromBytes(b, u.r.body.Tuple.Of(u.r.bytes))
	} else {
		b = msgp.AppendNil(b)
	}
	if args == 7 {
		b = msgp.AppendString(b, envelope.Magic)
	}
	return wire.FinishFrame(b, 0), nil
}

func appendStringOrNil(b, v []byte) []byte {
	if v == nil {
		return msgp.AppendNil(b)
	}
	return msgp.AppendStringFromBytes(b, v)
}

// operations returns the request's operations adapted to a tuple, in a pooled buffer. Without a tuple it only changes
// field numbers and offsets to count from 1.
func (u *updater) operations(tuple []byte) ([]byte, *refusal) {
	h, err := wire.ReadHead(u.r.bytes, u.ops.At)
	if err != nil || h.Kind != wire.Array {
		return nil, malformed
	}
	o := tupleSimulator{u: u, b: u.r.bytes, noTuple: tuple == nil}
	if refused := o.load(tuple); refused != nil {
		return nil, refused
	}
	o.out = memory.GetBuffer(u.ops.Len + len(tuple))
	next := h.Content.At
	for range h.Count {
		parts, end, err := wire.Elements(u.r.spans, u.r.bytes, next, maxParts)
		u.r.spans = parts
		if err != nil {
			return o.out, malformed // can't happen
		}
		if refused := o.operation(parts); refused != nil {
			return o.out, refused
		}
		next = end
	}
	if refused := o.fillPending(); refused != nil {
		return o.out, refused
	}
	if refused := o.decodeMoved(); refused != nil {
		return o.out, refused
	}
	list := o.out
	o.out = msgp.AppendArrayHeader(memory.GetBuffer(len(list)+8), uint32(o.count))
	o.out = append(o.out, list...)
	memory.PutBuffer(list)
	return o.out, nil
}

// Servers differ in the operations that they accept in one UPDATE or UPSERT. Before 3.0 they accept one operation on a
// field, and an UPSERT ignores further ones without an error. From 3.0 on they accept several, each of which works on
// the result of those before. From 3.2 on they accept splices of binaries. The gateway computes the result of all
// splices of a field itself. The last splice inserts the result; the others stay but do nothing. So a value is
// compressed once, however many operations there are.

// acceptsSeveral reports whether the server accepts several operations on a field.
func (u *updater) acceptsSeveral() bool { return u.server.AtLeast(3, 0) }

// acceptsSplice reports whether the server accepts the value at b[at:] as the target and the text of a splice.
func (u *updater) acceptsSplice(b []byte, at int) bool {
	h, err := wire.ReadHead(b, at)
	return err == nil && (h.Kind == wire.String || h.Kind == wire.Binary && u.server.AtLeast(3, 2))
}
