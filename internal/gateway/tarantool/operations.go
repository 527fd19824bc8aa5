package tarantool

import (
	"fmt"
	"slices"

	"github.com/cinch-layer/cinch"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// maxOperations is how many the server takes in a request.
const maxOperations = 4000

// operations looks at those of an UPDATE or UPSERT.
func (c *collector) operations(at wire.Span) *refusal {
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
			c.needed = nil
			return nil // the server refuses it
		}
		if no := c.operation(parts); no != nil {
			return no
		}
		next = end
	}
	return nil
}

// operation looks at [operator, field, …].
func (c *collector) operation(parts []wire.Span) *refusal {
	if len(parts) < 3 {
		return nil // the server refuses it
	}
	op, ok := wire.Text(parts[0].Of(c.b))
	if !ok || len(op) == 0 {
		return nil
	}
	t := c.target(parts[1])
	switch op[0] { // the server looks at no more of it
	case '=', '!':
		if op[0] == '!' {
			c.shift(t, false)
		}
		return c.assign(t, parts[2])
	case '#':
		c.shift(t, true)
	case ':':
		return c.splice(t, parts[len(parts)-1])
	}
	return nil
}

// assign looks at a value that becomes a field, or a part of one.
func (c *collector) assign(t target, v wire.Span) *refusal {
	if t.known && !t.nested {
		return c.value(t.position, v)
	}
	return c.unsealed(v)
}

// unsealed refuses what begins like an envelope, where it can't be wrapped.
func (c *collector) unsealed(v wire.Span) *refusal {
	if !c.r.magic {
		return nil
	}
	for s := wire.NewStrings(c.b, v); s.Next(); {
		if cinch.IsSealed(s.Content.Of(c.b)) {
			return unsupported("magic", fmt.Sprintf("values that begin like its envelopes, set by path, spliced in or counted from the end (space %s)", c.space.Name))
		}
	}
	return nil
}

// splice looks at an operation that cuts bytes, and pastes others in. Those of an envelope must
// not be cut.
func (c *collector) splice(t target, paste wire.Span) *refusal {
	c.fenced = true
	switch {
	case t.nested, !t.known && !t.fromEnd: // within a field there are no envelopes
	case !c.space.ruled && c.all.calls == nil && (!c.all.prepared || len(c.space.fields) == 0):
	case !t.known, c.moved:
		c.need("splice", fmt.Sprintf("splices in space %s, some of whose fields are sealed,", c.space.Name))
		return nil
	case c.mayHold(t.position):
		c.need("splice", fmt.Sprintf("splices of field %d of space %s, whose values are sealed,", t.position+1, c.space.Name))
		return nil
	}
	return c.unsealed(paste)
}

// mayHold reports whether a field may hold envelopes. Functions whose arguments are compressed may store them in
// any field. A field that an index touches is not meant to hold one, but may have had rules before; that is
// looked at where it can be done without refusing anything.
func (c *collector) mayHold(position int) bool {
	if c.all.mayHold(c.space.at(position)) {
		return true
	}
	return c.all.calls != nil && (c.all.prepared || c.space.KnownTouchAt(position) == "")
}

// need says that an operation can't be carried out without what is stored.
func (c *collector) need(what, operation string) {
	if c.needed == nil {
		c.needed = unsupported(what, operation+" without its stored function: an administrator runs 'cinch tarantool init', once; or read the tuple, and assign its fields with =")
	}
}

// shift looks at insertions and deletions. They could move an envelope into a field that an index
// or a constraint touches. Fields of the primary key are no matter: the server lets no UPDATE
// change what they hold.
func (c *collector) shift(t target, deletes bool) {
	if !c.space.ruled || t.nested || !t.fromEnd && !t.known {
		return
	}
	c.moved, c.fenced = true, true
	from := t.position
	if !t.known {
		from = 0
	}
	for other := from; other < c.width(); other++ {
		why := c.space.touchedAt(other)
		if why == "" || c.isPrimary(other) || !c.guardedBeside(from, other, deletes) {
			continue
		}
		c.need("shift", fmt.Sprintf("insertions and deletions of fields in space %s that would move sealed values to field %d (%s)", c.space.Name, other+1, why))
		return
	}
}

// guardedBeside reports whether a field that may be sealed moves in the direction of another.
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
	return primary != nil && slices.ContainsFunc(primary.Parts, func(p store.Part) bool { return p.Field == position })
}

// width is how many fields there are to look at.
func (c *collector) width() int {
	n := max(len(c.space.fields), len(c.space.Fields))
	for _, x := range c.space.Indexes {
		for _, p := range x.Parts {
			n = max(n, p.Field+1)
		}
	}
	return n
}

// target finds the field that an operation names.
func (c *collector) target(name wire.Span) target {
	return c.space.target(name.Of(c.b), c.r.base())
}
