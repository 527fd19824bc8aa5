package redis

import (
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// freeBytes is up to where a value needs no budget: it is what a connection's buffers hold
// anyway.
const freeBytes = bufferBytes

// held is a staged piece of a reply: a pooled buffer and the budget that it takes.
type held struct {
	p         *replyPump
	buf       []byte
	n         int64
	impatient bool // does without memory that it would have to wait for
}

func (h *held) free() {
	gateway.PutBuffer(h.buf)
	if h.n > 0 {
		h.p.s.replyRoom.Release(h.n)
	}
	*h = held{}
}

// openBulk opens the bulk string of n bytes at hand, whose first line has been consumed,
// and sends the value, or an error in its place. What a script returns may be any bytes, and so may
// what is in excluded keys (computed): there, what is no envelope goes as it is.
func (p *replyPump) openBulk(n int64, computed bool) error {
	raw, err := p.declared(n)
	if computed && isNoEnvelope(err) {
		return p.passBulk(n)
	}
	if err != nil {
		return p.skipBroken(n, err)
	}
	stored, err := p.stage(n, int64(raw))
	if err != nil {
		return err
	}
	defer stored.free()
	if p.mute {
		return nil
	}
	out := gateway.GetBuffer(raw + 64)
	defer func() { gateway.PutBuffer(out) }()
	if compute.PartOfAny(p.plain, stored.buf) {
		return p.emit(resp.AppendBulk(nil, stored.buf))
	}
	start := time.Now()
	out, err = p.s.g.sealer.Open(resp.AppendBulkHeader(out, raw), stored.buf)
	if computed && isNoEnvelope(err) {
		return p.emit(resp.AppendBulk(nil, stored.buf))
	}
	if err != nil {
		return p.broken(err)
	}
	p.opened(stored.buf, raw, time.Since(start))
	if p.excluded {
		p.s.g.cfg.Stats.Guarded("", "opened_excluded")
	}
	out = append(out, crlf...)
	return p.emitHeld(out, stored.n > 0)
}

// passBulk sends the n bytes at hand as they are.
func (p *replyPump) passBulk(n int64) error {
	if err := p.emit(resp.AppendBulkHeader(nil, int(n))); err != nil {
		return err
	}
	return p.in.CopyTo(n+2, p.pass)
}

// declared reads the header of the envelope of n bytes at hand and returns the length of
// the value, which is within the limit.
func (p *replyPump) declared(n int64) (raw int, err error) {
	head, err := p.in.Peek(int(min(n, int64(cinch.MaxHeaderLen))))
	if err != nil {
		return 0, err
	}
	h, err := cinch.ParseHeader(head)
	if err != nil {
		return 0, err
	}
	if limit := p.s.g.maxOpen(); h.RawLen > limit || n > int64(limit+cinch.MaxHeaderLen) {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are opened", cinch.ErrTooLarge, h.RawLen, limit)
	}
	return h.RawLen, nil
}

// skipBroken answers for an envelope that cannot be opened and swallows its bytes.
func (p *replyPump) skipBroken(n int64, cause error) error {
	if !isOpenError(cause) {
		return cause // of the connection
	}
	if err := p.in.CopyTo(n+2, swallow); err != nil {
		return err
	}
	return p.broken(cause)
}

func isOpenError(err error) bool {
	return errors.Is(err, cinch.ErrDamaged) || errors.Is(err, cinch.ErrTooLarge) ||
		errors.Is(err, cinch.ErrUnknownCodec) || errors.Is(err, cinch.ErrDictMissing)
}

// broken tells the client what is wrong with a sealed value.
func (p *replyPump) broken(cause error) error {
	return p.emitError(p.s.sayBroken(cause, p.s.asked.pattern(p.s.queue.answered())))
}

// describe turns what Open answers into an error class and an error reply.
func describe(err error) (class, text string) {
	if errors.Is(err, errNoRoom) {
		return "budget", "ERR cinch: " + err.Error()
	}
	class, text = gateway.Unopened(err)
	return class, "ERR cinch: " + text
}

// isNoEnvelope reports of bytes that begin with the magic, and that a script may have made up, that
// nobody sealed them. Where they name a dictionary in a well-formed header, an answer that told a
// wrong tag from a missing dictionary would tell which dictionaries there are.
func isNoEnvelope(err error) bool {
	return errors.Is(err, cinch.ErrDamaged) && !errors.Is(err, cinch.ErrTag)
}

// opened counts an envelope that was opened.
func (p *replyPump) opened(stored []byte, raw int, d time.Duration) {
	h, err := cinch.ParseHeader(stored)
	if err == nil {
		p.s.g.cfg.Stats.Opened(h.Codec, len(stored), raw, d)
		p.s.g.cfg.Stats.Latency(d)
	}
}

// stage reads the n bytes and the line break at hand into a buffer, under the budget for
// them and extra more.
func (p *replyPump) stage(n, extra int64) (held, error) {
	h := held{p: p}
	err := h.read(n, extra)
	if more := n + extra - h.n; err == nil && n+extra > freeBytes && more > 0 {
		err = h.reserve(more, more)
	}
	if err != nil {
		h.free()
		return held{}, err
	}
	h.buf = h.buf[:n]
	return h, nil
}

// read reads the n bytes and the line break at hand. It takes memory for what is long as it comes, of a claim
// that has extra more. When it gets none h has the beginning.
func (h *held) read(n, extra int64) error {
	total := int(n) + len(crlf)
	if n <= freeBytes {
		h.buf = gateway.GetBuffer(total)[:total]
		return h.p.in.ReadFull(h.buf)
	}
	for have := 0; have < total; have = len(h.buf) {
		size := min(total, max(firstPiece, growth*have))
		if err := h.reserve(int64(size-have), int64(total-have)+extra); err != nil {
			return err
		}
		grown := append(gateway.GetBuffer(size), h.buf...)
		gateway.PutBuffer(h.buf)
		h.buf = grown[:size]
		if err := h.fill(h.buf[have:]); err != nil {
			return err
		}
	}
	return nil
}

// fill reads len(b) bytes, for which memory is held: the server is judged while it lets us wait.
func (h *held) fill(b []byte) error {
	p := h.p
	if len(p.in.Buffered()) < len(b) {
		if err := p.to.flush(); err != nil { // which may wait for the client
			return err
		}
		p.s.replyRoom.Await(gateway.FromUpstream)
		defer p.s.replyRoom.Awaited()
	}
	return p.in.ReadFull(b)
}

// reserve takes n bytes of the reply budget, of claim that will be needed. What was gathered for the client
// goes out first, so that nobody waits for it in the meantime.
func (h *held) reserve(n, claim int64) error {
	p := h.p
	if !p.s.replyRoom.TryAcquire(n) {
		if h.impatient {
			return errNoRoom
		}
		if err := p.to.flush(); err != nil {
			return err
		}
		if err := p.s.replyRoom.Grow(p.s.ctx, n, claim); err != nil {
			return err
		}
	}
	h.n += n
	return nil
}

// emitHeld sends a large piece. A client that takes too little of it while others wait for the
// budget that it holds is disconnected.
func (p *replyPump) emitHeld(b []byte, holds bool) error {
	if !holds || p.mute {
		return p.emit(b)
	}
	return p.to.writeHeld(b)
}
