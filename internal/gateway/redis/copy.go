package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// copier carries replies element by element, and has values opened.
type copier struct {
	frames    *frames
	opening   *opening
	redirects *redirects
	path      []level // to the element at hand
}

// replace swallows the reply at hand and sends an error instead.
func (c *copier) replace(text string) error {
	if err := c.skip(); err != nil {
		return err
	}
	if c.redirects.view != nil && cluster.Elsewhere(text) {
		return c.frames.emit(cluster.AppendRedirection(nil, resp.AppendError(nil, text), c.redirects.renamer()))
	}
	return c.frames.emitError(text)
}

// skip swallows one reply.
func (c *copier) skip() error {
	muted := c.frames.mute
	c.frames.mute = true
	err := c.copy(shapeNone, nil)
	c.frames.mute = muted
	return err
}

// copyFor carries the reply that e describes.
func (c *copier) copyFor(e *entry) error {
	c.opening.excluded = e.flags&flagExcluded != 0
	defer func() { c.opening.excluded = false }()
	if e.op == nil {
		return c.copy(e.shape, nil)
	}
	c.opening.op = e.op
	err := c.copy(e.shape, e.op.mask)
	c.opening.op = nil
	return err
}

// copy carries one reply, with the attributes in front of it, and opens the values that
// sh names.
func (c *copier) copy(sh shape, mask []bool) error {
	c.path = c.path[:0]
	for {
		h, err := c.copyElement(sh, mask)
		if err != nil {
			return err
		}
		if h.IsAggregate() && h.N > 0 {
			if len(c.path) == maxDepth {
				return fmt.Errorf("%w: nested deeper than %d", resp.ErrReply, maxDepth)
			}
			if n := len(c.path); n > 0 && c.path[n-1].index == 0 {
				c.path[n-1].nested = true
			}
			c.path = append(c.path, level{kind: h.Kind, remaining: h.N - 1})
			continue
		}
		if h.Kind != resp.Attribute && c.endElement() {
			return nil
		}
	}
}

// endElement moves on behind a finished element and reports the end of the reply. An
// attribute is no element of what contains it.
func (c *copier) endElement() bool {
	for len(c.path) > 0 {
		top := &c.path[len(c.path)-1]
		if top.remaining > 0 {
			top.remaining--
			top.index++
			return false
		}
		attribute := top.kind == resp.Attribute
		c.path = c.path[:len(c.path)-1]
		if attribute {
			return false
		}
	}
	return true
}

// copyElement carries the first line of an element and the body of a string.
func (c *copier) copyElement(sh shape, mask []bool) (resp.Head, error) {
	line, h, err := c.frames.peek()
	if err != nil {
		return h, err
	}
	if !bytes.HasSuffix(line, crlf) {
		return h, c.frames.copyLong()
	}
	if h.Kind == resp.Error {
		return h, c.redirects.emitErrorLine(line)
	}
	if !h.IsString() || h.N < 0 {
		return h, c.frames.emitLine(line)
	}
	if h.Kind == resp.Bulk && h.N > 0 && sh != shapeNone && sh.holdsValue(c.path, mask) {
		sealed := false
		if h.N >= int64(len(cinch.Magic)) {
			if sealed, err = c.frames.beginsSealed(len(line)); err != nil {
				return h, err
			}
		}
		formats := c.opening.formats(c.path)
		if sealed {
			c.frames.in.Discard(len(line))
			return h, c.opening.openBulk(h.N, sh == shapeAny || len(c.opening.plain()) > 0 || c.opening.excluded, formats != nil)
		}
		if formats != nil && h.N <= int64(c.opening.vault.maxOpen) {
			c.frames.in.Discard(len(line))
			return h, c.opening.openForeign(h.N, formats)
		}
		line = c.frames.in.Buffered()[:len(line)] // Peek may have moved it
	}
	if err := c.frames.emitLine(line); err != nil {
		return h, err
	}
	return h, c.frames.in.CopyTo(h.N+2, c.frames.pass)
}

// maxDepth is how deep a reply may nest. Scripts on a server return up to about 8,000
// levels, the depth of Lua's stack.
const maxDepth = 1 << 16
