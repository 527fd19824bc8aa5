package tarantool

import (
	"context"
	"fmt"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// rewriting seals the values of requests, for all sessions of a gateway.
type rewriting struct {
	vault   *vault
	catalog *catalog
	look    look
}

// rewritten is what goes upstream in place of a request.
type rewritten struct {
	bytes []byte // in a buffer of the pool's; nil: it goes as it came
	stamp uint64 // of ours, that is in it; 0: none
	need  need   // of the tuple; when there is any, bytes and stamp are not set
}

// rewrite seals the values of a request, whose header and body have been parsed. laneStamp is
// what the request has to carry; 0: the version by which it is rewritten, if it is.
func (w *rewriting) rewrite(ctx context.Context, r *request, h handling, laneStamp uint64) (out rewritten, no *refusal) {
	r.edits, r.magic = r.edits[:0], hasMagic(r.bytes)
	if h == calls {
		return w.rewriteCall(ctx, r, laneStamp)
	}
	all := w.catalog.current(ctx)
	if all == nil && (r.magic || r.splices()) {
		all = w.catalog.need(ctx)
	}
	s, no := w.spaceOf(all, r)
	if s == nil || no != nil {
		return out, no
	}
	if r.header.Schema != 0 && r.header.Schema != all.version {
		return out, w.foreignVersion(r, all, s, h)
	}
	c, no := collect(all, s, r, h)
	if no == nil && c.needed != nil && s.blind && w.look.storesPlain(ctx, w.vault, r, need{s, all, c.needed}) {
		c.needed, c.fenced = nil, true
	}
	switch {
	case no != nil:
		return out, no
	case c.needed != nil:
		return rewritten{need: need{s, all, c.needed}}, nil
	case len(r.edits) == 0 && !c.fenced:
		return out, nil
	}
	stamp := laneStamp
	if stamp == 0 {
		stamp = all.version
	}
	if len(r.edits) > 0 {
		out.bytes = r.apply(w.vault, stamp)
	}
	own := r.header.Schema != 0 // the client's own stamp: the client is told when it is wrong
	if out.bytes == nil && c.fenced && !own {
		out.bytes = r.stamped(stamp)
	}
	if out.bytes != nil && !own {
		out.stamp = stamp
	}
	return out, nil
}

// spaceOf finds the space of a request. While no schema is known only what can do no harm passes.
func (w *rewriting) spaceOf(all *spaces, r *request) (*space, *refusal) {
	if all == nil {
		if w.catalog.readsSchema() && (r.magic || r.splices()) {
			return nil, schemaUnknown
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
	s := all.find(uint32(id), name)
	if s == nil && all.blindTo(uint32(id), name) && r.splices() {
		return nil, unsupported("splice", fmt.Sprintf("splices, insertions and deletions of fields in a space that the gateway's user may not see, as %s: grant it the right to read that", all.whyBlind()))
	}
	return s, nil
}

// foreignVersion handles a request that the client stamped with another version of the schema than
// the one that is known. The server refuses it, unless the schema moved just now. Nothing is sealed then.
func (w *rewriting) foreignVersion(r *request, all *spaces, s *space, h handling) *refusal {
	if r.magic || (s.ruled || all.calls != nil) && h != tuples && r.splices() {
		return wrongVersion(w.catalog.seen.Load(), r)
	}
	return nil
}

// collect finds what to seal in a tuple or in operations, and what else there is to know of these.
func collect(all *spaces, s *space, r *request, h handling) (c collector, no *refusal) {
	if len(s.fields) == 0 && !r.magic && (all.calls == nil || h == tuples) {
		return c, nil
	}
	c = collector{all: all, space: s, r: r, b: r.bytes}
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
