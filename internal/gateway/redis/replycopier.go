package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// copier carries replies element by element. It passes values to the replyDecoder.
type copier struct {
	frames    *frames
	decoder   *replyDecoder
	redirects *redirects
	path      []level // to the current element
}

// replace drops the current reply and sends an error instead.
func (c *copier) replace(text string) error {
	if err := c.skip(); err != nil {
		return err
	}
	if c.redirects.view != nil && cluster.IsRedirectOrRetry(text) {
		return c.frames.emit(cluster.AppendRedirection(nil, resp.AppendError(nil, text), c.redirects.renamer()))
	}
	return c.frames.emitError(text)
}

// skip drops one reply.
func (c *copier) skip() error {
	muted := c.frames.mute
	c.frames.mute = true
	err := c.copy(shapeNone, nil)
	c.frames.mute = muted
	return err
}

// copyFor carries the reply that e describes.
func (c *copier) copyFor(e *entry) error {
	c.decoder.excluded = e.flags&flagExcluded != 0
	defer func() { c.decoder.excluded = false }()
	if e.data == nil {
		return c.copy(e.shape, nil)
	}
	c.decoder.data = e.data
	err := c.copy(e.shape, e.data.mask)
	c.decoder.data = nil
	return err
}

// copy carries one reply, with the attributes in front of it. The values that sh names are decompressed.
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
			if cap(c.path) > maxIdleDepth {
				c.path = nil
			}
			return nil
		}
	}
}

// endElement moves on after a finished element and reports whether the reply has ended. An attribute does not
// count as an element of what contains it.
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
		if h.N >= int64(len(envelope.Magic)) {
			if sealed, err = c.frames.beginsSealed(len(line)); err != nil {
				return h, err
			}
		}
		formats := c.decoder.formats(c.path)
		if sealed {
			c.frames.in.Discard(len(line))
			return h, c.decoder.openBulk(h.N, sh == shapeAny || len(c.decoder.plainBytes()) > 0 || c.decoder.excluded, formats != nil)
		}
		if formats != nil && h.N <= int64(c.decoder.codec.maxOpen) {
			c.frames.in.Discard(len(line))
			return h, c.decoder.openForeign(h.N, formats)
		}
		line = c.frames.in.Buffered()[:len(line)] // Peek may have moved it
	}
	if err := c.frames.emitLine(line); err != nil {
		return h, err
	}
	return h, c.frames.in.CopyTo(h.N+2, c.frames.pass)
}

// maxDepth limits the nesting of a reply. Scripts on a server return up to about 8,000 levels, the depth of
// Lua's stack.
const maxDepth = 1 << 16

// maxIdleDepth limits the path whose memory is kept until the next reply.
const maxIdleDepth = 16

// shape says which bulk strings of a reply are values. Only those are decompressed: a key, a field or a
// member may begin with the magic too and must not be changed.
//
// A position is the path of indexes from the root; a map counts its keys and values
// singly, so that RESP2's flat pairs and RESP3's maps have the same positions.
type shape uint8

const (
	shapeNone        shape = iota
	shapeBulk              // GET: the reply itself
	shapeAll               // MGET: every element
	shapePairs             // HGETALL: f v f v
	shapeRandomPairs       // HRANDFIELD WITHVALUES: f v f v, or in RESP3 [f v] [f v]
	shapeScanPairs         // HSCAN: cursor [f v f v]
	shapeEntries           // XRANGE: [id [f v f v]] …
	shapeClaimed           // XAUTOCLAIM: cursor entries deleted
	shapeStreams           // XREAD: [name entries] …, or in RESP3 a map
	shapeStreamInfo        // XINFO STREAM: entries somewhere inside
	shapeAny               // scripts: anything, at any depth
	shapeSorted            // SORT GET: by a mask over the patterns (entryData.mask)
)

// level is one aggregate that contains an element.
type level struct {
	kind      byte  // as in resp.Head
	remaining int64 // elements still to come, without the current one
	index     int64 // of the current element
	nested    bool  // the first element is an aggregate itself
}

// holdsValue reports whether a bulk string at the end of path is a value.
func (s shape) holdsValue(path []level, mask []bool) bool {
	depth := len(path)
	switch s {
	case shapeBulk:
		return depth == 0
	case shapeAll:
		return depth == 1
	case shapePairs:
		return depth == 1 && odd(path, 0)
	case shapeRandomPairs:
		return depth == 1 && odd(path, 0) || depth == 2 && odd(path, 1)
	case shapeScanPairs:
		return depth == 2 && path[0].index == 1 && odd(path, 1)
	case shapeEntries:
		return isEntryValue(path)
	case shapeClaimed:
		return depth == 4 && path[0].index == 1 && isEntryValue(path[1:])
	case shapeStreams:
		return inStreams(path)
	case shapeStreamInfo:
		return depth >= 3 && inEntry(path)
	case shapeAny:
		return true
	case shapeSorted:
		return depth == 1 && len(mask) > 0 && mask[path[0].index%int64(len(mask))]
	}
	return false
}

func odd(path []level, i int) bool { return path[i].index%2 == 1 }

// isEntryValue reports whether path leads to a value in a list of entries: [id [f v f v]] ….
func isEntryValue(path []level) bool {
	return len(path) == 3 && path[1].index == 1 && odd(path, 2)
}

// inStreams reports whether path leads to a value in the reply to XREAD: an array of [name entries] pairs in RESP2, a
// map of name to entries in RESP3.
func inStreams(path []level) bool {
	if len(path) == 0 {
		return false
	}
	if path[0].kind == '%' {
		return odd(path, 0) && isEntryValue(path[1:])
	}
	return len(path) == 5 && path[1].index == 1 && isEntryValue(path[2:])
}

// inEntry reports whether path leads to a value in an entry [id [f v f v]], wherever XINFO STREAM has one. An entry is
// an array of two elements, a string and an array. Nothing else in that reply looks like it: lists of two groups or
// consumers begin with an array, and pending entries contain no array.
func inEntry(path []level) bool {
	n := len(path)
	leaf, entry := path[n-1], path[n-2]
	return leaf.kind == '*' && entry.kind == '*' &&
		entry.index == 1 && entry.remaining == 0 && !entry.nested && leaf.index%2 == 1
}
