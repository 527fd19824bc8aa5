package redis

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// maxDepth is how deep a reply may nest. Scripts on a server return up to about 8,000
// levels, the depth of Lua's stack.
const maxDepth = 1 << 16

// replyPump is the half of a session that carries replies.
type replyPump struct {
	s        *session
	in       *resp.Reader
	to       sink
	spill    spill
	path     []level
	tx       []entry       // queued in the open transaction, in order
	mute     bool          // of the reply at hand
	aside    *bytes.Buffer // where emit puts what is gathered; nil but for that
	plain    [][]byte      // in the reply at hand, parts of these look like envelopes and are none
	excluded bool          // the reply at hand is of keys that hold no envelopes
	busy     atomic.Bool   // with a reply of which the server may have more to send

	subs, patterns, shards int64 // subscriptions
	monitoring             bool
}

func (p *replyPump) init(s *session) {
	p.s = s
	p.to.conn = s.conn
	p.spill.init(s)
	p.to.spill, p.to.room = &p.spill, s.replyRoom
	p.in = resp.NewReader(&source{conn: s.upstream, idle: p.to.flush}, bufferBytes)
}

// pumpReplies carries replies until the server closes the connection or the client is
// gone.
func (s *session) pumpReplies() {
	p := &s.out
	defer p.in.Free()
	for {
		if err := p.next(); err != nil {
			p.logEnd(err)
			break
		}
	}
	if text := s.lastWords.Load(); text != nil {
		p.mute = false
		_ = p.emitError(*text)
	}
	_ = p.to.flush()
	p.spill.wait()
}

func (p *replyPump) logEnd(err error) {
	if errors.Is(err, resp.ErrReply) || errors.Is(err, resp.ErrLineTooLong) {
		p.s.g.cfg.Stats.Error("upstream_protocol")
		p.s.g.cfg.Log.Error("upstream sent what is no reply", "err", err)
	}
}

// next carries one reply, or one message that nobody asked for.
func (p *replyPump) next() error {
	p.s.queue.carried()
	b, err := p.in.Peek(1)
	if err != nil {
		return err
	}
	if b[0] == resp.Attribute || b[0] == resp.Push || p.monitoring || p.subs+p.patterns+p.shards > 0 {
		if own, err := p.isUnasked(b[0]); err != nil || own {
			return p.passUnasked(err)
		}
	}
	e, ok := p.s.queue.pop()
	if !ok {
		return p.passUnasked(nil)
	}
	if done, err := p.quick(&e); done || err != nil {
		return err
	}
	p.busy.Store(true)
	err = p.consume(e)
	p.busy.Store(false)
	return err
}

// quick carries what most replies are: one element that has arrived as a whole and stays as it
// is, and what follows of the same kind. It leaves everything else alone.
func (p *replyPump) quick(e *entry) (done bool, err error) {
	if !e.changesNothing() {
		return false, nil
	}
	most := 1
	if !p.monitoring && p.subs+p.patterns+p.shards == 0 { // no messages in between
		most += p.s.queue.left
	}
	b := p.in.Buffered()
	n, replies := 0, 0
	for replies < most {
		size := plainReply(b[n:], e.shape)
		if size == 0 {
			break
		}
		n += size
		replies++
	}
	if replies == 0 {
		return false, nil
	}
	p.s.queue.left -= replies - 1
	p.mute = false
	err = p.to.lend(b[:n])
	p.in.Discard(n)
	return true, err
}

const okReply = "+OK\r\n"

// plainReply is how long the reply is that begins b, when that is one element that is complete
// and stays as it is, or 0.
func plainReply(b []byte, sh shape) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case resp.Bulk:
		body, size := resp.BulkAt(b)
		if n := body + size + 2; body > 0 && n <= len(b) && (sh == shapeNone || !cinch.IsSealed(b[body:body+size])) {
			return n
		}
	case resp.Simple, resp.Integer:
		if len(b) >= len(okReply) && string(b[:len(okReply)]) == okReply {
			return len(okReply)
		}
		if n := bytes.Index(b, crlf); n > 0 {
			return n + 2
		}
	}
	return 0
}

// passUnasked copies a frame that answers no request; it is never muted.
func (p *replyPump) passUnasked(err error) error {
	if err != nil {
		return err
	}
	p.mute = false
	if p.s.g.ofSentinels() {
		return p.carrySentinelMessage()
	}
	if p.s.g.inCluster() {
		if ack, err := p.isAck(); err != nil || ack { // its slot has gone to another node
			return p.copyUnaskedAck(err)
		}
	}
	return p.copy(shapeNone, nil)
}

// consume carries the reply that e describes.
func (p *replyPump) consume(e entry) error {
	p.mute = e.flags&(flagMute|flagHidden) != 0
	if e.flags&flagQueued != 0 {
		line, err := p.in.Line()
		if err != nil && !errors.Is(err, resp.ErrLineTooLong) {
			return err
		}
		if bytes.Equal(line, queued) {
			p.enqueue(e)
			return p.emitLine(line)
		}
	}
	return p.carry(&e)
}

var queued = []byte("+QUEUED\r\n")

// enqueue keeps the entry of a queued command until EXEC.
func (p *replyPump) enqueue(e entry) {
	e.flags &^= flagQueued
	if n := len(p.tx); n > 0 && p.tx[n-1].sameAs(&e) {
		p.tx[n-1].n++
		return
	}
	p.tx = append(p.tx, e)
}

// carry treats the reply at hand as e says.
func (p *replyPump) carry(e *entry) error {
	switch e.kind {
	case kindReply:
		return p.copyFor(e)
	case kindComputed:
		return p.carryComputed(e.op)
	case kindAsk:
		return p.carryAsk(e)
	case kindCapture:
		return p.capture(e.op)
	case kindFloat:
		return p.carryFloat(e.op)
	case kindRefuse:
		return p.replace(e.op.text)
	case kindHook:
		return p.carryHook(e)
	case kindSubscribe:
		return p.carrySubscribe(e.op.acks)
	case kindUnsubscribe:
		return p.carrySubscribe(p.subscriptions(e.op.class))
	case kindExec:
		if e.op != nil {
			defer e.op.after(answer{})
		}
		return p.carryExec()
	case kindUnit:
		return p.carryUnit(e)
	case kindCluster:
		return p.carryCluster(e.op.text)
	case kindLoaded:
		return p.carryLoaded(e.op.mask)
	}
	return p.carryRaw(e.op)
}

// replace swallows the reply at hand and sends an error instead.
func (p *replyPump) replace(text string) error {
	if err := p.skip(); err != nil {
		return err
	}
	if p.s.g.cfg.view != nil && cluster.Elsewhere(text) {
		return p.emit(cluster.AppendRedirection(nil, resp.AppendError(nil, text), p.renamer()))
	}
	return p.emitError(text)
}

// skip swallows one reply.
func (p *replyPump) skip() error {
	muted := p.mute
	p.mute = true
	err := p.copy(shapeNone, nil)
	p.mute = muted
	return err
}

// copyFor carries the reply that e describes.
func (p *replyPump) copyFor(e *entry) error {
	p.excluded = e.flags&flagExcluded != 0
	defer func() { p.excluded = false }()
	if e.op == nil {
		return p.copy(e.shape, nil)
	}
	p.plain = e.op.plainBytes
	err := p.copy(e.shape, e.op.mask)
	p.plain = nil
	return err
}

// copy carries one reply, with the attributes in front of it, and opens the values that
// sh names.
func (p *replyPump) copy(sh shape, mask []bool) error {
	p.path = p.path[:0]
	for {
		h, err := p.copyElement(sh, mask)
		if err != nil {
			return err
		}
		if h.IsAggregate() && h.N > 0 {
			if len(p.path) == maxDepth {
				return fmt.Errorf("%w: nested deeper than %d", resp.ErrReply, maxDepth)
			}
			if n := len(p.path); n > 0 && p.path[n-1].index == 0 {
				p.path[n-1].nested = true
			}
			p.path = append(p.path, level{kind: h.Kind, remaining: h.N - 1})
			continue
		}
		if h.Kind != resp.Attribute && p.endElement() {
			return nil
		}
	}
}

// endElement moves on behind a finished element and reports the end of the reply. An
// attribute is no element of what contains it.
func (p *replyPump) endElement() bool {
	for len(p.path) > 0 {
		top := &p.path[len(p.path)-1]
		if top.remaining > 0 {
			top.remaining--
			top.index++
			return false
		}
		attribute := top.kind == resp.Attribute
		p.path = p.path[:len(p.path)-1]
		if attribute {
			return false
		}
	}
	return true
}

// peek reads the first line of the element at hand, without consuming it.
func (p *replyPump) peek() (line []byte, h resp.Head, err error) {
	line, err = p.in.Line()
	if errors.Is(err, resp.ErrLineTooLong) {
		return p.peekLong()
	}
	if err != nil {
		return nil, h, err
	}
	h, err = resp.ParseHead(line)
	return line, h, err
}

// peekLong is peek for a line that does not fit the buffer, which only a status, an error
// or a large number can be. It returns the beginning; copyElement carries all of it.
func (p *replyPump) peekLong() (line []byte, h resp.Head, err error) {
	line = p.in.Buffered()
	switch h.Kind = line[0]; h.Kind {
	case resp.Simple, resp.Error, resp.BigNumber:
		return line, h, nil
	}
	return nil, h, resp.ErrLineTooLong
}

// copyLong carries the rest of a line up to its CRLF.
func (p *replyPump) copyLong() error {
	for {
		b := p.in.Buffered()
		if i := bytes.Index(b, crlf); i >= 0 {
			return p.emitLine(b[:i+2])
		}
		if n := len(b) - 1; n > 0 { // the last byte may be the CR
			if err := p.emitLine(b[:n]); err != nil {
				return err
			}
		}
		if err := p.in.Fill(); err != nil {
			return err
		}
	}
}

// copyElement carries the first line of an element and the body of a string.
func (p *replyPump) copyElement(sh shape, mask []bool) (resp.Head, error) {
	line, h, err := p.peek()
	if err != nil {
		return h, err
	}
	if !bytes.HasSuffix(line, crlf) {
		return h, p.copyLong()
	}
	if h.Kind == resp.Error {
		return h, p.emitErrorLine(line)
	}
	if !h.IsString() || h.N < 0 {
		return h, p.emitLine(line)
	}
	if h.Kind == resp.Bulk && h.N >= int64(len(cinch.Magic)) && sh != shapeNone && sh.holdsValue(p.path, mask) {
		sealed, err := p.beginsSealed(len(line))
		if err != nil {
			return h, err
		}
		if sealed {
			p.in.Discard(len(line))
			return h, p.openBulk(h.N, sh == shapeAny || len(p.plain) > 0 || p.excluded)
		}
		line = p.in.Buffered()[:len(line)] // Peek may have moved it
	}
	if err := p.emitLine(line); err != nil {
		return h, err
	}
	return h, p.in.CopyTo(h.N+2, p.pass)
}

// beginsSealed reports whether the bytes off ahead are the magic.
func (p *replyPump) beginsSealed(off int) (bool, error) {
	b, err := p.in.Peek(off + len(cinch.Magic))
	if err != nil {
		return false, err
	}
	return cinch.IsSealed(b[off:]), nil
}

// emitLine sends the buffered line and consumes it.
func (p *replyPump) emitLine(line []byte) error {
	err := p.pass(line)
	p.in.Discard(len(line))
	return err
}

// pass is emit for bytes of the reader's buffer.
func (p *replyPump) pass(b []byte) error {
	if p.mute || p.aside != nil {
		return p.emit(b)
	}
	return p.to.lend(b)
}

// emit sends bytes to the client, unless the reply at hand is not for it.
func (p *replyPump) emit(b []byte) error {
	if p.aside != nil {
		return p.setAside(b)
	}
	if p.mute {
		return nil
	}
	return p.to.write(b)
}

func (p *replyPump) emitError(text string) error {
	return p.emit(resp.AppendError(nil, text))
}

// carryHook carries a reply and reports its first line.
func (p *replyPump) carryHook(e *entry) error {
	line, _, err := p.peek()
	if err != nil {
		return err
	}
	a := answer{head: line[0], text: string(line[1 : len(line)-2])}
	if err := p.copy(e.shape, nil); err != nil {
		return err
	}
	e.op.after(a)
	finish(e.op)
	return nil
}

// carryExec carries the replies of the client's transaction, each as it was queued.
func (p *replyPump) carryExec() error {
	tx := p.tx
	p.tx = nil
	line, h, err := p.peek()
	if err != nil {
		return err
	}
	if h.Kind != resp.Array || h.N < 0 {
		return p.copy(shapeNone, nil)
	}
	p.in.Discard(len(line))
	hidden := 0
	for i := range tx {
		if tx[i].flags&flagHidden != 0 {
			hidden += tx[i].n
		}
	}
	if err := p.emit(resp.AppendArray(nil, int(h.N)-hidden)); err != nil {
		return err
	}
	return p.carryQueued(tx)
}

func (p *replyPump) carryQueued(tx []entry) error {
	muted := p.mute
	for i := range tx {
		e := &tx[i]
		for range e.n {
			if err := p.passPushes(); err != nil {
				return err
			}
			p.mute = muted || e.flags&flagHidden != 0
			if err := p.carry(e); err != nil {
				return err
			}
		}
	}
	p.mute = muted
	return nil
}

// passPushes carries pushes that came between two replies.
func (p *replyPump) passPushes() error {
	for {
		b, err := p.in.Peek(1)
		if err != nil || b[0] != resp.Push {
			return err
		}
		if ack, err := p.isAck(); err != nil || ack {
			return err
		}
		if err := p.passUnasked(nil); err != nil {
			return err
		}
	}
}

// carryUnit carries the answer to EXEC of a transaction that the gateway made around one
// command. Of its replies the client gets the one behind op.acks others.
func (p *replyPump) carryUnit(e *entry) error {
	line, h, err := p.peek()
	if err != nil {
		return err
	}
	if h.Kind != resp.Array || h.N < 0 {
		return p.capture(e.op)
	}
	p.in.Discard(len(line))
	for i := range int(h.N) {
		if err := p.passPushes(); err != nil {
			return err
		}
		if i != e.op.acks {
			err = p.skip()
		} else {
			err = p.copyFor(e)
		}
		if err != nil {
			return err
		}
	}
	e.op.given = true
	close(e.op.done)
	return nil
}

// carryRaw copies the rest of the server's bytes without looking, unless the first of them
// are an error.
func (p *replyPump) carryRaw(o *op) error {
	first, err := p.in.Peek(1)
	if err != nil {
		return err
	}
	if o.answer.head = first[0]; first[0] == resp.Error {
		defer finish(o)
		return p.copy(shapeNone, nil)
	}
	finish(o)
	if err := p.to.write(p.in.Buffered()); err != nil {
		return err
	}
	if err := p.to.flush(); err != nil {
		return err
	}
	p.in.Free()
	if err := gateway.Relay(p.s.conn, p.s.upstream); err != nil {
		return err
	}
	return io.EOF
}
