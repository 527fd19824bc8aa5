package redis

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/foreign"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// opening opens sealed values in replies, under the reply budget.
type opening struct {
	frames *frames
	vault  *vault
	life   *gateway.Life
	asked  *asked // knows the kind of key that the reply at hand is for
	queue  *queue
	trace  *tracing // nil: none

	took     time.Duration // opening the values of the current reply
	op       *op           // of the current reply; nil: it has none
	excluded bool          // the current reply is of keys that hold no envelopes
}

// held is a staged piece of a reply: a pooled buffer and the budget that it takes.
type held struct {
	opening   *opening
	buf       []byte
	n         int64
	impatient bool // does without memory that it would have to wait for
}

func (h *held) free() {
	gateway.PutBuffer(h.buf)
	if h.n > 0 {
		h.opening.life.Replies.Release(h.n)
	}
	*h = held{}
}

// openBulk opens the bulk string of n bytes at hand, whose first line has been consumed,
// and sends the value, or an error in its place. What a script returns may be any bytes, and so may
// what is in excluded keys (computed): there, what is no envelope goes as it is. Of a value that another library
// had compressed it sends the content, if bare.
func (o *opening) openBulk(n int64, computed, bare bool) error {
	h, err := o.declared(n)
	if computed && isNoEnvelope(err) {
		return o.passBulk(n)
	}
	if err != nil {
		return o.skipBroken(n, err)
	}
	stored, err := o.stage(n, int64(openBytes(h)))
	if err != nil {
		return err
	}
	defer stored.free()
	if o.frames.mute {
		return nil
	}
	out := gateway.GetBuffer(h.MaxValueLen() + 64)
	defer func() { gateway.PutBuffer(out) }()
	if compute.PartOfAny(o.plain(), stored.buf) {
		return o.frames.emit(resp.AppendBulk(nil, stored.buf))
	}
	start := time.Now()
	out, err = o.appendOpened(out, stored.buf, h, bare)
	if computed && isNoEnvelope(err) {
		return o.frames.emit(resp.AppendBulk(nil, stored.buf))
	}
	if err != nil {
		return o.broken(err)
	}
	o.opened(stored.buf, &h, time.Since(start))
	if o.excluded {
		o.vault.Stats.Guarded("", "opened_excluded")
	}
	out = append(out, crlf...)
	return o.emitHeld(out, stored.n > 0)
}

// openWhole opens a reply that is one envelope and lies in the buffer as size bytes, as GET gets it. It leaves a
// value alone that takes memory of the budget, is damaged, or that another library had compressed: done is false then.
func (o *opening) openWhole(stored []byte, size int) (done bool, err error) {
	h, err := cinch.ParseHeader(stored)
	if err != nil || h.IsForeign() || h.RawLen > bufferBytes/2 || h.RawLen > o.vault.maxOpen {
		return false, nil
	}
	to := &o.frames.to
	o.frames.mute = false
	start := time.Now()
	dst := to.spare(resp.MaxHeaderLen + h.RawLen + len(crlf))
	if dst == nil {
		return false, nil // an earlier write has failed
	}
	out, err := o.vault.Sealer.OpenContentParsed(resp.AppendBulkHeader(dst, h.RawLen), stored, h)
	if err != nil {
		return false, nil
	}
	to.buf = append(out, crlf...)
	o.opened(stored, &h, time.Since(start))
	o.countTook()
	o.frames.in.Discard(size)
	return true, nil
}

// passBulk sends the n bytes at hand as they are.
func (o *opening) passBulk(n int64) error {
	if err := o.frames.emit(resp.AppendBulkHeader(nil, int(n))); err != nil {
		return err
	}
	return o.frames.in.CopyTo(n+2, o.frames.pass)
}

// declared reads the header of the envelope of n bytes at hand, in which the length of
// the value is within the limit.
func (o *opening) declared(n int64) (cinch.Header, error) {
	head, err := o.frames.in.Peek(int(min(n, int64(cinch.MaxHeaderLen))))
	if err != nil {
		return cinch.Header{}, err
	}
	h, err := cinch.ParseHeader(head)
	if err != nil {
		return cinch.Header{}, err
	}
	if limit := o.vault.maxOpen; h.RawLen > limit || n > int64(limit+cinch.MaxHeaderLen) {
		return cinch.Header{}, fmt.Errorf("%w: %d bytes, at most %d are opened", cinch.ErrTooLarge, h.RawLen, limit)
	}
	return h, nil
}

// skipBroken answers for an envelope that cannot be opened and swallows its bytes.
func (o *opening) skipBroken(n int64, cause error) error {
	if !isOpenError(cause) {
		return cause // of the connection
	}
	if err := o.frames.in.CopyTo(n+2, swallow); err != nil {
		return err
	}
	return o.broken(cause)
}

// broken tells the client what is wrong with a sealed value.
func (o *opening) broken(cause error) error {
	o.trace.broken()
	return o.frames.emitError(o.vault.sayBroken(o.life.Client.RemoteAddr(), cause, o.asked.pattern(o.queue.answered())))
}

// opened counts an envelope with header h that was opened. The header of a plain value, which was not parsed, counts nothing.
func (o *opening) opened(stored []byte, h *cinch.Header, d time.Duration) {
	if h.Len > 0 {
		o.vault.Stats.Opened(h.Codec, len(stored), h.RawLen, d)
		o.took += d
	}
	if o.trace != nil {
		o.trace.opened += d
	}
}

// countTook counts what opening the values of a reply has added to it.
func (o *opening) countTook() {
	if o.took > 0 {
		o.vault.Stats.Latency(o.took)
		o.took = 0
	}
}

// stage reads the n bytes and the line break at hand into a buffer, under the budget for
// them and extra more.
func (o *opening) stage(n, extra int64) (held, error) {
	h := held{opening: o}
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
		return h.opening.frames.in.ReadFull(h.buf)
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
	o := h.opening
	if len(o.frames.in.Buffered()) < len(b) {
		if err := o.frames.to.Flush(); err != nil { // which may wait for the client
			return err
		}
		o.life.Replies.Await(gateway.FromUpstream)
		defer o.life.Replies.Awaited(gateway.FromUpstream)
	}
	return o.frames.in.ReadFull(b)
}

// reserve takes n bytes of the reply budget, of claim that will be needed. What was gathered for the client
// goes out first, so that nobody waits for it in the meantime.
func (h *held) reserve(n, claim int64) error {
	o := h.opening
	if !o.life.Replies.TryAcquire(n) {
		if h.impatient {
			return errNoRoom
		}
		if err := o.frames.to.Flush(); err != nil {
			return err
		}
		if err := o.life.Replies.Grow(o.life.Context(), n, claim); err != nil {
			return err
		}
	}
	h.n += n
	return nil
}

// emitHeld sends a large piece. A client that takes too little of it while others wait for the
// budget that it holds is disconnected.
func (o *opening) emitHeld(b []byte, holds bool) error {
	if !holds || o.frames.mute {
		return o.frames.emit(b)
	}
	return o.frames.to.writeHeld(b)
}

// plain are bytes whose parts, in the reply at hand, look like envelopes and are none.
func (o *opening) plain() [][]byte {
	if o.op == nil {
		return nil
	}
	return o.op.plainBytes
}

// formats are those of other libraries in which the client gets the content of the element at hand.
func (o *opening) formats(path []level) []foreign.Format {
	if o.op == nil {
		return nil
	}
	if o.op.seen != nil {
		<-o.op.seen
	}
	return o.op.contents.at(path)
}

// appendOpened appends the value of an envelope as a bulk string.
func (o *opening) appendOpened(dst, stored []byte, h cinch.Header, bare bool) ([]byte, error) {
	switch {
	case !h.IsForeign():
		return o.vault.Sealer.OpenParsed(resp.AppendBulkHeader(dst, h.RawLen), stored, h)
	case bare:
		return o.vault.Sealer.OpenContentParsed(resp.AppendBulkHeader(dst, h.RawLen), stored, h)
	}
	value, err := o.vault.Sealer.OpenParsed(gateway.GetBuffer(h.MaxValueLen()), stored, h)
	defer gateway.PutBuffer(value)
	if err != nil {
		return dst, err
	}
	return append(resp.AppendBulkHeader(dst, len(value)), value...), nil
}

// openForeign sends the content of the bulk string of n bytes at hand if it is in one of the formats, and else the bytes as they are.
// Memory for the value and all that comes of it is asked for at once: who holds some and asks again may wait for ever.
func (o *opening) openForeign(n int64, formats []foreign.Format) error {
	head, err := o.frames.in.Peek(int(min(n, foreign.HeadBytes)))
	if err != nil {
		return err
	}
	limit, _ := o.vault.contentRoom(int(n))
	most, may := foreign.Expect(formats, head, int(n), limit)
	if !may {
		return o.passBulk(n)
	}
	stored, err := o.stage(n, 2*int64(most))
	if err != nil {
		return err
	}
	defer stored.free()
	if o.frames.mute {
		return nil
	}
	content, _, err := foreign.Take(gateway.GetBuffer(min(most, 4*int(n))), formats, stored.buf, limit)
	defer func() { gateway.PutBuffer(content) }()
	if err != nil {
		content = append(content[:0], stored.buf...)
	}
	if err := o.frames.emit(resp.AppendBulkHeader(nil, len(content))); err != nil {
		return err
	}
	if err := o.emitHeld(content, stored.n > 0); err != nil {
		return err
	}
	return o.frames.emit(crlf)
}
