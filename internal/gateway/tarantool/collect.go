package tarantool

import (
	"fmt"

	"github.com/cinch-layer/cinch"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// need says of a request that what it changes has to be read first.
type need struct {
	space *space // nil: that is not so
	all   *spaces
	no    *refusal // what to answer where it is impossible
}

// collector finds the values of a request to one space.
type collector struct {
	all   *spaces
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
	if !c.all.off {
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
