package tarantool

import (
	"bytes"
	"fmt"
	"slices"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// maxOperations is the number of operations that the server accepts in a request.
const maxOperations = 4000

// addOperations examines the operations of an UPDATE or UPSERT, which are at a span of the request.
func (c *collector) addOperations(at wire.Span) *refusal {
	if at.Len == 0 {
		return nil
	}
	h, err := wire.ReadHead(c.b, at.At)
	if err != nil || h.Kind != wire.Array {
		return nil // the server refuses it
	}
	if h.Count > maxOperations {
		return unsupported("splice", fmt.Sprintf("over %d operations in a request", maxOperations))
	}
	next := h.Content.At
	for range h.Count {
		parts, end, err := wire.Elements(c.r.spans, c.b, next, maxParts)
		c.r.spans = parts
		if err != nil {
			c.stepsRefusal, c.onlyIfPlain = nil, nil
			return nil // the server refuses it
		}
		if refused := c.addOperation(parts); refused != nil {
			return refused
		}
		next = end
	}
	return nil
}

// addOperation examines one operation: [operator, field, …].
func (c *collector) addOperation(parts []wire.Span) *refusal {
	if len(parts) < 3 {
		return nil // the server refuses it
	}
	op, ok := wire.Text(parts[0].Of(c.b))
	if !ok || len(op) == 0 {
		return nil
	}
	t := c.space.target(parts[1].Of(c.b), c.r.base())
	switch op[0] { // the server ignores the rest of the name
	case '=', '!':
		if op[0] == '!' {
			c.addShift(t, false)
		}
		return c.addAssignment(t, parts[2])
	case '#':
		c.addShift(t, true)
	case ':':
		return c.addSplice(t, parts[len(parts)-1])
	}
	return nil
}

// addAssignment examines the value v that becomes the field t, or a part of it.
func (c *collector) addAssignment(t target, v wire.Span) *refusal {
	if t.known && !t.nested {
		return c.addValue(t.position, v)
	}
	return c.refuseSealed(v)
}

// refuseSealed refuses values in v that begin like an envelope. It is for places where they can't be wrapped.
func (c *collector) refuseSealed(v wire.Span) *refusal {
	if c.r.magic && holdsEnvelope(c.b, v) {
		return unsupported("magic", fmt.Sprintf("values that begin like its envelopes, set by path, spliced in or counted from the end (space %s)", c.space.Name))
	}
	return nil
}

// addSplice examines an operation that cuts bytes out of the field t and inserts paste. It must not cut the bytes of an
// envelope.
func (c *collector) addSplice(t target, paste wire.Span) *refusal {
	c.needsStamp = true
	switch {
	case t.nested, !t.known && !t.fromEnd: // within a field, where there are no envelopes, or no such field
	case !c.space.ruled && c.spaces.callRules == nil && (!c.spaces.initialized || len(c.space.fields) == 0):
	case !t.known, c.moved:
		c.requireSteps("splice", fmt.Sprintf("splices in space %s, some of whose fields are compressed,", c.space.Name))
		return nil
	case c.mayHoldEnvelope(t.position):
		c.requireSteps("splice", fmt.Sprintf("splices of field %d of space %s, whose values are compressed,", t.position+1, c.space.Name))
		return nil
	}
	if c.spaces.initialized && !t.nested && (t.known || t.fromEnd) {
		c.onlyIfPlain = withoutFunction("splice", fmt.Sprintf("splices in space %s, which other gateways may compress,", c.space.Name))
	}
	return c.refuseSealed(paste)
}

// mayHoldEnvelope reports whether a field may hold envelopes. Functions whose arguments are compressed may store
// envelopes in any field. A field of an index should hold none, but may have been compressed before it got the
// index. Such a field counts only if steps are possible (initialized), since otherwise the request would be refused.
func (c *collector) mayHoldEnvelope(position int) bool {
	if c.spaces.mayHoldEnvelope(c.space.at(position)) {
		return true
	}
	return c.spaces.callRules != nil && (c.spaces.initialized || c.space.KnownConstraint(position) == "")
}

// requireSteps records that an operation needs the stored tuple. what and operation are as for withoutFunction.
func (c *collector) requireSteps(what, operation string) {
	if c.stepsRefusal == nil {
		c.stepsRefusal = withoutFunction(what, operation)
	}
}

// withoutFunction returns the error for an operation that needs the stored tuple, on a server without the stored
// function. It is counted under what. operation describes the operation, in the plural.
func withoutFunction(what, operation string) *refusal {
	return unsupported(what, operation+" without its stored function: have an administrator run 'cinch tarantool init' once; or read the tuple, and assign its fields with =")
}

// addShift examines an insertion or deletion of fields at t. It could move an envelope into a field of an index or a
// constraint. Fields of the primary key don't matter: the server lets no UPDATE change them.
func (c *collector) addShift(t target, deletes bool) {
	if !c.space.ruled || t.nested || !t.fromEnd && !t.known {
		return
	}
	c.moved, c.needsStamp = true, true
	from := t.position
	if !t.known {
		from = 0
	}
	for other := from; other < c.width(); other++ {
		why := c.space.touchedAt(other)
		if why == "" || c.isPrimary(other) || !c.guardedBeside(from, other, deletes) {
			continue
		}
		c.requireSteps("shift", fmt.Sprintf("insertions and deletions of fields in space %s that would move compressed values to field %d (%s)", c.space.Name, other+1, why))
		return
	}
}

// guardedBeside reports whether an insertion at from, or a deletion, can move a field that may hold envelopes to the
// position other.
func (c *collector) guardedBeside(from, other int, deletes bool) bool {
	first, last := from, other
	if deletes {
		first, last = other+1, len(c.space.fields)
	}
	for n := first; n < last; n++ {
		if c.space.at(n).guarded {
			return true
		}
	}
	return false
}

func (c *collector) isPrimary(position int) bool {
	primary := c.space.Primary()
	return primary != nil && slices.ContainsFunc(primary.Parts, func(p schema.Part) bool { return p.Field == position })
}

// width returns the number of fields that have rules, a format or an index.
func (c *collector) width() int {
	n := max(len(c.space.fields), len(c.space.Fields))
	for _, x := range c.space.Indexes {
		for _, p := range x.Parts {
			n = max(n, p.Field+1)
		}
	}
	return n
}

// target is the field that an operation changes.
type target struct {
	position int  // from 0
	number   int  // the negative number; set if fromEnd is
	known    bool // position is set; if not, either fromEnd is set or there is no such field
	nested   bool // the target is within the field, by a path
	fromEnd  bool // the field's number counts from the end
}

// target resolves a field's number, name or path, given as MessagePack. Numbers count from base.
func (s *space) target(v []byte, base uint64) target {
	if path, ok := wire.Text(v); ok {
		return s.targetByPath(path)
	}
	n, ok := wire.Int(v)
	if !ok {
		return target{}
	}
	if n < 0 {
		return s.targetFromEnd(n)
	}
	n -= int64(min(base, 1<<32))
	return target{position: int(n), known: n >= 0}
}

// targetFromEnd returns the field with a negative number. Its position is known if all tuples have the same length.
func (s *space) targetFromEnd(n int64) target {
	t := target{number: int(max(n, -1<<31)), fromEnd: true}
	if s.FieldCount > 0 {
		at := n + int64(s.FieldCount)
		t.position, t.known = int(at), at >= 0
	}
	return t
}

// parseDigits reads a number in a path. Like the server it lets the number overflow.
func parseDigits(text []byte) (n int32, ok bool) {
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int32(b-'0')
	}
	return n, len(text) > 0
}

// targetByPath finds the field that a path begins with: the name of a field, [number] as Lua counts, or ["name"]. The
// rest of the path leads into the field.
func (s *space) targetByPath(path []byte) target {
	if n, ok := s.FieldNumber(string(path)); ok {
		return target{position: n, known: true}
	}
	path = bytes.TrimPrefix(path, []byte("."))
	if len(path) == 0 {
		return target{}
	}
	var first, rest []byte
	if path[0] == '[' {
		end := closingBracket(path)
		if end < 0 {
			return target{}
		}
		first, rest = path[1:end], path[end+1:]
		if n, ok := parseDigits(first); ok && n > 0 {
			return target{position: int(n) - 1, known: true, nested: len(rest) > 0}
		} else if ok {
			t := s.targetFromEnd(int64(n) - 1)
			t.nested = len(rest) > 0
			return t
		}
		if len(first) < 2 {
			return target{}
		}
		first = first[1 : len(first)-1] // without quotes
	} else {
		end := bytes.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		first, rest = path[:end], path[end:]
	}
	n, ok := s.FieldNumber(string(first))
	return target{position: n, known: ok, nested: len(rest) > 0}
}

// closingBracket returns the position of the bracket that closes the one at the start, or -1. Brackets within quotes
// don't count.
func closingBracket(path []byte) int {
	if len(path) > 1 && (path[1] == '"' || path[1] == '\'') {
		end := bytes.IndexByte(path[2:], path[1])
		if end < 0 || end+3 >= len(path) || path[end+3] != ']' {
			return -1
		}
		return end + 3
	}
	return bytes.IndexByte(path, ']')
}
