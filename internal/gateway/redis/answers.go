package redis

import (
	"bytes"
	"errors"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Answers to what the gateway asked for a client: those of the scripts that guard
// commands (guard.go), and those that the request pump waits for.

// sealedArray reports whether the reply at hand is the answer of one of our scripts for
// sealed values: an array that begins with the marker.
func (p *replyPump) sealedArray() (bool, error) {
	line, h, err := p.peek()
	if err != nil || h.Kind != resp.Array || h.N < 2 {
		return false, err
	}
	off := len(line)
	if line, err = p.in.LineAt(off); err != nil || line[0] != resp.Bulk {
		return false, err
	}
	off += len(line)
	if h, err = resp.ParseHead(line); err != nil || h.N != int64(len(lua.Marker)) {
		return false, err
	}
	b, err := p.in.Peek(off + len(lua.Marker))
	return err == nil && string(b[off:]) == lua.Marker, err
}

// carryComputed answers a read on an envelope; anything else is the server's answer.
func (p *replyPump) carryComputed(o *op) error {
	if !o.plain {
		sealed, err := p.sealedArray()
		if err != nil {
			return err
		}
		if !sealed {
			return p.copy(shapeNone, nil)
		}
		if err := p.dropMarker(); err != nil {
			return err
		}
	}
	line, err := p.in.Line()
	if err != nil {
		return err
	}
	h, err := resp.ParseHead(line)
	switch {
	case err != nil:
		return err
	case h.IsNull() && resp.IsWord(o.args[0], "digest"): // which has none of a key that is not there
		return p.copy(shapeNone, nil)
	case h.IsNull():
		p.in.Discard(len(line))
		return p.emit(compute.Answer(nil, o.args, nil, false))
	case h.Kind != resp.Bulk:
		return p.carryRefusal(o, line)
	}
	p.in.Discard(len(line))
	return p.computeOn(o, h.N)
}

// carryRefusal carries an error, unless the command would have met another one first: some
// look at their arguments before they look at the kind of key. What else a server refuses, such as
// keys of another node, it refuses before a command looks at anything.
func (p *replyPump) carryRefusal(o *op, line []byte) error {
	first := compute.Answer(nil, o.args, nil, false)
	if !o.plain || first[0] != resp.Error || !bytes.HasPrefix(line, []byte("-WRONGTYPE ")) {
		return p.copy(shapeNone, nil)
	}
	if err := p.skip(); err != nil {
		return err
	}
	return p.emit(first)
}

// computeOn answers a read on the bulk string of n bytes at hand.
func (p *replyPump) computeOn(o *op, n int64) error {
	if compute.IsLength(o.args) && !o.plain {
		return p.lengthOf(n)
	}
	raw, err := p.rawLength(n)
	if err != nil {
		return p.skipBroken(n, err)
	}
	stored, err := p.stage(n, int64(raw))
	if err != nil {
		return err
	}
	defer stored.free()
	value := gateway.GetBuffer(raw)
	defer func() { gateway.PutBuffer(value) }()
	start := time.Now()
	if value, err = p.s.g.sealer.Open(value, stored.buf); err != nil {
		return p.broken(err)
	}
	p.opened(stored.buf, raw, time.Since(start))
	return p.emitHeld(compute.Answer(nil, o.args, value, true), stored.n > 0)
}

// rawLength is the length of the value that the n bytes at hand stand for.
func (p *replyPump) rawLength(n int64) (int, error) {
	if n < int64(len(cinch.Magic)) {
		return int(n), nil
	}
	sealed, err := p.beginsSealed(0)
	if err != nil || !sealed {
		return int(n), err
	}
	return p.declared(n)
}

// lengthOf answers STRLEN and HSTRLEN from the header alone, which is all that the
// script sent.
func (p *replyPump) lengthOf(n int64) error {
	stored, err := p.stage(n, 0)
	if err != nil {
		return err
	}
	defer stored.free()
	h, err := cinch.ParseHeader(stored.buf)
	if err != nil {
		return p.broken(err)
	}
	return p.emit(resp.AppendInt(nil, int64(h.RawLen)))
}

// dropMarker consumes the head of a script's answer, up to the first envelope.
func (p *replyPump) dropMarker() error {
	if err := p.dropLine(); err != nil {
		return err
	}
	return p.skip()
}

// dropLine consumes the line at hand.
func (p *replyPump) dropLine() error {
	line, err := p.in.Line()
	if err == nil {
		p.in.Discard(len(line))
	}
	return err
}

// carryAsk gives the envelopes in the answer of a guard to the request pump, and any
// other answer to the client.
func (p *replyPump) carryAsk(e *entry) error {
	sealed, err := p.sealedArray()
	if err != nil {
		return err
	}
	o := e.op
	if sealed && o.done == nil { // in EXEC there is nobody left to ask
		p.s.g.cfg.Stats.Error("sealed_in_transaction")
		return p.replace("ERR cinch: the value was sealed while this transaction was queued; try again")
	}
	if sealed {
		return p.capture(o)
	}
	if o.done != nil && p.isErrorLike(isNoGuard) {
		return p.capture(o)
	}
	if err := p.copyRenamed(e); err != nil {
		return err
	}
	o.given = true
	finish(o)
	return nil
}

// copyRenamed copies a reply; an error speaks of the client's script by its own name.
func (p *replyPump) copyRenamed(e *entry) error {
	line, h, err := p.peek()
	if err != nil {
		return err
	}
	ran, own := e.op.renames[0], e.op.renames[1]
	if h.Kind != resp.Error || ran == "" || cluster.IsRedirection(line) || !bytes.HasSuffix(line, crlf) {
		return p.copyFor(e)
	}
	err = p.emit(bytes.ReplaceAll(line, []byte(ran), []byte(own)))
	p.in.Discard(len(line))
	return err
}

// carryFloat keeps back the server's complaint that a value is no number: it may be a
// sealed one.
func (p *replyPump) carryFloat(o *op) error {
	if o.done != nil && p.isErrorLike(isNoFloat) {
		return p.capture(o)
	}
	if err := p.copy(shapeNone, nil); err != nil {
		return err
	}
	o.given = true
	finish(o)
	return nil
}

func finish(o *op) {
	if o.done != nil {
		close(o.done)
	}
}

// isErrorLike reports whether the reply at hand is an error whose text is so.
func (p *replyPump) isErrorLike(is func(string) bool) bool {
	line, h, err := p.peek()
	return err == nil && h.Kind == resp.Error && is(string(line[1:len(line)-2]))
}

// capture keeps a reply for the request pump: a scalar, a bulk string or a flat array of
// bulk strings.
func (p *replyPump) capture(o *op) error {
	a := &o.answer
	line, h, err := p.peek()
	if err != nil {
		return err
	}
	a.head, a.null, a.count = h.Kind, h.IsNull(), h.N
	if !h.IsString() && !h.IsAggregate() {
		a.text = string(line[1 : len(line)-2])
	}
	p.in.Discard(len(line))
	switch {
	case h.IsString() && h.N >= 0:
		a.body, err = p.captureBulk(o, h.N)
	case h.IsAggregate():
		err = p.captureList(o, h.N)
	}
	if err == nil {
		finish(o)
	}
	return err
}

func (p *replyPump) captureBulk(o *op, n int64) ([]byte, error) {
	switch {
	case n > int64(p.s.g.maxOpen()+cinch.MaxHeaderLen):
		return nil, p.in.CopyTo(n+2, swallow)
	case n <= freeBytes:
		b := make([]byte, n+2)
		err := p.in.ReadFull(b)
		return b[:n], err
	}
	h := held{p: p, impatient: o.held > 0} // holding some, an answer must not wait for more
	err := h.read(n, 0)
	if errors.Is(err, errNoRoom) {
		left := n + 2 - int64(len(h.buf))
		h.free()
		return nil, p.in.CopyTo(left, swallow)
	}
	o.held += h.n
	return h.buf[:min(n, int64(len(h.buf)))], err
}

// maxListBytes bounds a captured list.
const maxListBytes = 64 << 20

func (p *replyPump) captureList(o *op, n int64) error {
	total := int64(0)
	for range n {
		line, h, err := p.peek()
		if err != nil {
			return err
		}
		var item []byte
		o.answer.cut = o.answer.cut || total > maxListBytes
		if h.Kind == resp.Integer {
			item, err = bytes.Clone(line[1:len(line)-2]), p.dropLine()
		} else if h.Kind != resp.Bulk || h.N < 0 || o.answer.cut {
			err = p.skip()
		} else if err = p.dropLine(); err == nil {
			item, err = p.captureBulk(o, h.N)
		}
		if err != nil {
			return err
		}
		if total += h.N + 64; !o.answer.cut {
			o.answer.list = append(o.answer.list, item)
		}
	}
	return nil
}

var errGone = errors.New("redis: session has ended")

// patience is how long the request pump waits before it sees to it that the reply pump
// can move.
const patience = 20 * time.Millisecond

// await waits for the reply pump's answer.
func (s *session) await(o *op) error {
	if err := s.up.flush(); err != nil {
		return err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		select {
		case <-o.done:
			return nil
		case <-t.C:
			if gateway.PeerClosed(s.conn) { // the server must hear of it, or a blocked command goes on
				_ = gateway.CloseWrite(s.upstream)
			}
			s.out.spill.unstick()
			t.Reset(patience)
		case <-s.dead:
			select {
			case <-o.done: // it was the last thing that the pump did
				return nil
			default:
				s.letGo(o)
				return errGone
			}
		}
	}
}

// letGo gives back the budget that an answer holds.
func (s *session) letGo(o *op) {
	s.replyRoom.Release(o.held)
	o.held = 0
}
