package redis

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// replyPump carries the replies of a session.
type replyPump struct {
	life       *gateway.PumpedSession
	queue      *queue
	codec      *valueCodec
	spill      spill
	frames     frames
	copier     copier
	decoder    replyDecoder
	redirects  redirects
	internal   internalReplies
	nodes      nodeReplies
	pushes     pushFrames
	finalError atomic.Pointer[string] // sent to the client when the session fails

	shared *sharing // nil: the client shares no connections

	tx   []entry     // queued in the open transaction, in order
	busy atomic.Bool // handling a reply whose end may not have arrived yet
}

func (p *replyPump) init(life *gateway.PumpedSession, queue *queue, recentKeys *recentKeys, state *sessionState, codec *valueCodec, view topology) {
	p.life, p.queue, p.codec = life, queue, codec
	p.spill.init(life, codec)
	p.frames.init(life, &p.spill)
	p.decoder = replyDecoder{frames: &p.frames, codec: codec, life: life, recentKeys: recentKeys, queue: queue}
	p.redirects = redirects{frames: &p.frames, life: life, view: view}
	p.copier = copier{frames: &p.frames, decoder: &p.decoder, redirects: &p.redirects}
	p.internal = internalReplies{frames: &p.frames, decoder: &p.decoder, copier: &p.copier}
	p.nodes = nodeReplies{frames: &p.frames, copier: &p.copier, redirects: &p.redirects}
	p.pushes = pushFrames{frames: &p.frames, copier: &p.copier, nodes: &p.nodes, queue: queue, state: state}
}

// run carries replies until the server closes the connection or the client is gone.
func (p *replyPump) run() {
	defer p.frames.in.Free()
	for {
		if err := p.next(); err != nil {
			p.life.LogEnd(memory.FromUpstream, errorClasses.Of(err), err)
			break
		}
		if t := p.decoder.trace; t != nil {
			t.endReply(p.queue.answered())
		}
	}
	if text := p.finalError.Load(); text != nil {
		p.frames.mute = false
		_ = p.frames.emitError(*text)
	}
	_ = p.frames.to.Flush()
	p.spill.wait()
}

// unblock is called by the request pump while it waits, because the client may not be reading.
func (p *replyPump) unblock() { p.spill.unblock() }

func (p *replyPump) midReply() bool { return p.busy.Load() }

// discard forgets the queued commands, which the server has dropped.
func (p *replyPump) discard() {
	for i := range p.tx {
		if e := &p.tx[i]; e.kind == kindHook {
			e.data.after(answer{head: resp.Error})
		}
	}
	p.tx = nil
}

func (p *replyPump) reset() {
	p.discard()
	p.pushes.reset()
}

func (p *replyPump) monitor() { p.pushes.monitoring, p.pushes.expected = true, true }

// errorClasses maps protocol violations by the server to metric classes. Violations by the client are answered by the
// server.
var errorClasses = gateway.ErrorClasses{
	{resp.ErrReply, "protocol"},
	{resp.ErrLineTooLong, "protocol"},
}

// next carries one reply, or one message that answers no request.
func (p *replyPump) next() error {
	b, err := p.frames.in.Peek(1)
	if err != nil {
		return err
	}
	if b[0] == resp.Push || p.pushes.expected {
		own, err := p.pushes.isUnsolicited(b[0])
		switch {
		case err != nil:
			return err
		case own:
			return p.pushes.passUnsolicited()
		}
	}
	e, ok := p.queue.pop()
	if !ok {
		return p.pushes.passUnsolicited()
	}
	if t := p.decoder.trace; t != nil {
		t.beginReply(p.queue.answered(), p.frames.in, b[0])
	}
	if e.changesNothing() {
		if done, err := p.carryBuffered(&e); done || err != nil {
			if p.queue.last {
				p.queue.carried()
			}
			return err
		}
	}
	if p.shared != nil {
		p.shared.noteReply(b[0], e.flags)
		e.flags &^= flagKeepIfOK | flagKeepIfError
	}
	p.busy.Store(true)
	err = p.consume(e)
	p.busy.Store(false)
	p.decoder.countTook()
	if err == nil { // otherwise waiting goroutines see that the server is gone
		p.queue.carried()
	}
	return err
}

// carryBuffered carries the most common replies to entries that change nothing: one complete buffered element that is
// not an envelope, together with following ones of the same entry; or one complete buffered envelope. It
// leaves all others alone.
func (p *replyPump) carryBuffered(e *entry) (done bool, err error) {
	most := 1
	if p.queue.left > 0 && !p.pushes.expected { // no messages can come in between
		most += p.queue.left
	}
	b := p.frames.in.Buffered()
	n, replies := 0, 0
	for replies < most && n < len(b) {
		rest := b[n:]
		size := 0
		switch rest[0] {
		case resp.Bulk:
			at, length := resp.BulkAt(rest)
			if size = at + length + 2; at == 0 || size > len(rest) {
				size = 0
			} else if e.shape != shapeNone && envelope.IsSealed(rest[at:at+length]) {
				if replies == 0 && e.shape == shapeBulk && e.flags == 0 {
					return p.decoder.openWhole(rest[at:at+length], size)
				}
				size = 0
			}
		case resp.Simple, resp.Integer:
			if i := bytes.Index(rest[:min(len(rest), maxShortReply)], crlf); i > 0 {
				size = i + 2
			}
		}
		if size == 0 {
			break
		}
		n += size
		replies++
	}
	if replies == 0 {
		return false, nil
	}
	p.queue.left -= replies - 1
	p.frames.mute = false
	err = p.frames.to.lend(b[:n])
	p.frames.in.Discard(n)
	return true, err
}

// maxShortReply is longer than any status or number line; longer lines are handled elsewhere.
const maxShortReply = 64

// consume carries the reply that e describes.
func (p *replyPump) consume(e entry) error {
	p.frames.mute = e.flags&(flagMute|flagHidden) != 0
	if e.flags&flagQueued != 0 {
		line, err := p.frames.in.Line()
		if err != nil && !errors.Is(err, resp.ErrLineTooLong) {
			return err
		}
		if bytes.Equal(line, queued) {
			p.enqueue(e)
			return p.frames.emitLine(line)
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

// carry handles the current reply as e says.
func (p *replyPump) carry(e *entry) error {
	switch e.kind {
	case kindReply:
		return p.copier.copyFor(e)
	case kindComputed:
		return p.internal.carryComputed(e.data)
	case kindAsk:
		return p.internal.carryAsk(e)
	case kindCapture:
		return p.internal.capture(e.data)
	case kindFloat:
		return p.internal.carryFloat(e.data)
	case kindRefuse:
		return p.copier.replace(e.data.text)
	case kindFrame:
		if err := p.copier.skip(); err != nil {
			return err
		}
		return p.frames.emit([]byte(e.data.text))
	case kindHook:
		return p.carryHook(e)
	case kindSubscribe:
		return p.pushes.carrySubscribe(e.data.acks)
	case kindUnsubscribe:
		return p.pushes.carrySubscribe(p.pushes.subscriptions(e.data.class))
	case kindExec:
		if e.data != nil {
			defer e.data.after(answer{})
		}
		return p.carryExec()
	case kindUnit:
		return p.carryUnit(e)
	case kindCluster:
		return p.nodes.carry(e.data.text)
	case kindScriptExists:
		return p.internal.carryScriptExists(e.data.mask)
	}
	return p.carryRaw(e.data)
}

// carryHook carries a reply and passes its first line to data.after.
func (p *replyPump) carryHook(e *entry) error {
	line, _, err := p.frames.peek()
	if err != nil {
		return err
	}
	a := answer{head: line[0], text: string(line[1 : len(line)-2])}
	if err := p.copier.copy(e.shape, nil); err != nil {
		return err
	}
	e.data.after(a)
	finish(e.data)
	return nil
}

// carryExec carries the replies of the client's transaction, each as its queued entry says.
func (p *replyPump) carryExec() error {
	tx := p.tx
	p.tx = nil
	line, h, err := p.frames.peek()
	if err != nil {
		return err
	}
	if h.Kind != resp.Array || h.N < 0 {
		p.tx = tx
		p.discard()
		return p.copier.copy(shapeNone, nil)
	}
	p.frames.in.Discard(len(line))
	hidden := 0
	for i := range tx {
		if tx[i].flags&flagHidden != 0 {
			hidden += tx[i].n
		}
	}
	if err := p.frames.emit(resp.AppendArray(nil, int(h.N)-hidden)); err != nil {
		return err
	}
	return p.carryQueued(tx)
}

func (p *replyPump) carryQueued(tx []entry) error {
	muted := p.frames.mute
	for i := range tx {
		e := &tx[i]
		for range e.n {
			if err := p.passPushes(); err != nil {
				return err
			}
			p.frames.mute = muted || e.flags&flagHidden != 0
			if err := p.carry(e); err != nil {
				return err
			}
		}
	}
	p.frames.mute = muted
	return nil
}

// passPushes carries pushes that arrive between two replies.
func (p *replyPump) passPushes() error {
	for {
		b, err := p.frames.in.Peek(1)
		if err != nil || b[0] != resp.Push {
			return err
		}
		if ack, err := p.pushes.isAck(); err != nil || ack {
			return err
		}
		if err := p.pushes.passUnsolicited(); err != nil {
			return err
		}
	}
}

// carryUnit carries the answer to EXEC of a transaction that the gateway made around one command. The client
// gets reply number data.acks (from 0); the others are dropped.
func (p *replyPump) carryUnit(e *entry) error {
	line, h, err := p.frames.peek()
	if err != nil {
		return err
	}
	if h.Kind != resp.Array || h.N < 0 {
		return p.internal.capture(e.data)
	}
	p.frames.in.Discard(len(line))
	for i := range int(h.N) {
		if err := p.passPushes(); err != nil {
			return err
		}
		if i != e.data.acks {
			err = p.copier.skip()
		} else {
			err = p.copier.copyFor(e)
		}
		if err != nil {
			return err
		}
	}
	e.data.delivered = true
	close(e.data.done)
	return nil
}

// carryRaw copies the rest of the server's bytes without parsing, unless they begin with an error.
func (p *replyPump) carryRaw(o *entryData) error {
	first, err := p.frames.in.Peek(1)
	if err != nil {
		return err
	}
	if o.answer.head = first[0]; first[0] == resp.Error {
		defer finish(o)
		return p.copier.copy(shapeNone, nil)
	}
	finish(o)
	if err := p.frames.to.write(p.frames.in.Buffered()); err != nil {
		return err
	}
	if err := p.frames.to.Flush(); err != nil {
		return err
	}
	p.frames.in.Free()
	if err := gateway.Relay(p.life.Client, p.life.Upstream); err != nil {
		return err
	}
	return io.EOF
}
