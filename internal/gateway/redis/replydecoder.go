package redis

import (
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// replyDecoder decompresses values in replies, under the reply budget.
type replyDecoder struct {
	frames     *frames
	codec      *valueCodec
	life       *gateway.PumpedSession
	recentKeys *recentKeys // gives the key pattern of the current reply
	queue      *queue
	trace      *tracing // nil: not traced

	decompressTime time.Duration // time spent decompressing the values of the current reply
	data           *entryData    // of the current reply; nil: none
	excluded       bool          // the current reply is for keys that hold no envelopes
}

// stagedPiece is a buffered piece of a reply: a pooled buffer and the budget that it takes.
type stagedPiece struct {
	decoder *replyDecoder
	buf     []byte
	n       int64
	noWait  bool // fails with errNoMemory instead of waiting for memory
}

func (h *stagedPiece) free() {
	memory.PutBuffer(h.buf)
	if h.n > 0 {
		h.decoder.life.Replies.Release(h.n)
	}
	*h = stagedPiece{}
}

// openBulk decompresses the current bulk string of n bytes, whose first line has been consumed, and sends the
// value, or an error in its place. In replies of scripts and for excluded keys (computed), bytes that are not
// an envelope are sent unchanged. If bare, it sends the content of a value that a client library had
// compressed.
func (o *replyDecoder) openBulk(n int64, computed, bare bool) error {
	h, err := o.parseHeader(n)
	if computed && isNotEnvelope(err) {
		return o.passBulk(n)
	}
	if err != nil {
		return o.skipCorrupt(n, err)
	}
	stored, err := o.stage(n, int64(openBytes(h)))
	if err != nil {
		return err
	}
	defer stored.free()
	if o.frames.mute {
		return nil
	}
	out := memory.GetBuffer(h.MaxValueLen() + 64)
	defer func() { memory.PutBuffer(out) }()
	if compute.PartOfAny(o.plainBytes(), stored.buf) {
		return o.frames.emit(resp.AppendBulk(nil, stored.buf))
	}
	start := time.Now()
	out, err = o.appendOpened(out, stored.buf, h, bare)
	if computed && isNotEnvelope(err) {
		return o.frames.emit(resp.AppendBulk(nil, stored.buf))
	}
	if err != nil {
		return o.emitCorrupt(err)
	}
	o.countOpened(stored.buf, &h, time.Since(start))
	if o.excluded {
		o.codec.Stats.Guarded("", "opened_excluded")
	}
	out = append(out, crlf...)
	return o.emitHeld(out, stored.n > 0)
}

// openWhole decompresses a reply to GET that is one envelope and is buffered whole, in size bytes. done is
// false if it leaves the reply alone: the value is longer than bufferBytes/2, is damaged, or was compressed by a
// client library, or an earlier write failed.
func (o *replyDecoder) openWhole(stored []byte, size int) (done bool, err error) {
	h, err := envelope.ParseHeader(stored)
	if err != nil || h.IsForeign() || h.RawLen > bufferBytes/2 || h.RawLen > o.codec.maxOpen {
		return false, nil
	}
	to := &o.frames.to
	o.frames.mute = false
	start := time.Now()
	dst := to.spare(resp.MaxHeaderLen + h.RawLen + len(crlf))
	if dst == nil {
		return false, nil // an earlier write failed
	}
	out, err := o.codec.Sealer.OpenContentParsed(resp.AppendBulkHeader(dst, h.RawLen), stored, h)
	if err != nil {
		return false, nil
	}
	to.buf = append(out, crlf...)
	o.countOpened(stored, &h, time.Since(start))
	o.countTook()
	o.frames.in.Discard(size)
	return true, nil
}

// passBulk sends the current n bytes unchanged.
func (o *replyDecoder) passBulk(n int64) error {
	if err := o.frames.emit(resp.AppendBulkHeader(nil, int(n))); err != nil {
		return err
	}
	return o.frames.in.CopyTo(n+2, o.frames.pass)
}

// parseHeader parses the header of the current envelope of n bytes.
func (o *replyDecoder) parseHeader(n int64) (envelope.Header, error) {
	head, err := o.frames.in.Peek(int(min(n, int64(envelope.MaxHeaderLen))))
	if err != nil {
		return envelope.Header{}, err
	}
	return o.codec.parseHeader(head, n)
}

// skipCorrupt sends an error for an envelope that cannot be decompressed, and drops its bytes.
func (o *replyDecoder) skipCorrupt(n int64, cause error) error {
	if !isOpenError(cause) {
		return cause // an error of the connection
	}
	if err := o.frames.in.CopyTo(n+2, discardBytes); err != nil {
		return err
	}
	return o.emitCorrupt(cause)
}

// emitCorrupt sends the client an error about a corrupt envelope.
func (o *replyDecoder) emitCorrupt(cause error) error {
	o.trace.recordCorrupt()
	return o.frames.emitError(o.codec.reportCorrupt(o.life.Client.RemoteAddr(), cause, o.recentKeys.pattern(o.queue.answered())))
}

// countOpened counts a decompressed envelope with header h. A plain value has an unparsed header and is not
// counted.
func (o *replyDecoder) countOpened(stored []byte, h *envelope.Header, d time.Duration) {
	if h.Len > 0 {
		o.codec.Stats.Opened(h.Codec, len(stored), h.RawLen, d)
		o.decompressTime += d
	}
	if o.trace != nil {
		o.trace.opened += d
	}
}

// countTook records the latency that decompressing has added to a reply.
func (o *replyDecoder) countTook() {
	if o.decompressTime > 0 {
		o.codec.Stats.Latency(o.decompressTime)
		o.decompressTime = 0
	}
}

// stage reads the current n bytes and their line break into a buffer, and reserves budget for them and extra
// more bytes.
func (o *replyDecoder) stage(n, extra int64) (stagedPiece, error) {
	h := stagedPiece{decoder: o}
	err := h.read(n, extra)
	if more := n + extra - h.n; err == nil && n+extra > freeBytes && more > 0 {
		err = h.reserve(more, more)
	}
	if err != nil {
		h.free()
		return stagedPiece{}, err
	}
	h.buf = h.buf[:n]
	return h, nil
}

// read reads the current n bytes and their line break. For long values it reserves memory as they arrive, with a
// claim that includes extra bytes. If it fails, h holds the beginning.
func (h *stagedPiece) read(n, extra int64) error {
	total := int(n) + len(crlf)
	if n <= freeBytes {
		h.buf = memory.GetBuffer(total)[:total]
		return h.decoder.frames.in.ReadFull(h.buf)
	}
	for have := 0; have < total; have = len(h.buf) {
		size := min(total, max(firstPiece, growth*have))
		if err := h.reserve(int64(size-have), int64(total-have)+extra); err != nil {
			return err
		}
		grown := append(memory.GetBuffer(size), h.buf...)
		memory.PutBuffer(h.buf)
		h.buf = grown[:size]
		if err := h.fill(h.buf[have:]); err != nil {
			return err
		}
	}
	return nil
}

// fill reads len(b) bytes, for which memory is held. The stall detector watches the server meanwhile.
func (h *stagedPiece) fill(b []byte) error {
	o := h.decoder
	if len(o.frames.in.Buffered()) < len(b) {
		if err := o.frames.to.Flush(); err != nil { // this may wait for the client
			return err
		}
		o.life.Replies.Await(memory.FromUpstream)
		defer o.life.Replies.Awaited(memory.FromUpstream)
	}
	return o.frames.in.ReadFull(b)
}

// reserve takes n bytes of the reply budget. claim is how many bytes will be needed, n included. Before it waits it
// flushes pending output, so that the client gets that in the meantime.
func (h *stagedPiece) reserve(n, claim int64) error {
	o := h.decoder
	if !o.life.Replies.TryAcquire(n) {
		if h.noWait {
			return errNoMemory
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

// emitHeld sends a large piece. A client that reads it too slowly while others wait for the budget that it
// holds is disconnected.
func (o *replyDecoder) emitHeld(b []byte, holds bool) error {
	if !holds || o.frames.mute {
		return o.frames.emit(b)
	}
	return o.frames.to.writeHeld(b)
}

// plainBytes returns plain bytes of the current request. Parts of them in the reply may look like envelopes.
func (o *replyDecoder) plainBytes() [][]byte {
	if o.data == nil {
		return nil
	}
	return o.data.plainBytes
}

// formats returns the library formats to unwrap for the current element.
func (o *replyDecoder) formats(path []level) []clientformat.Format {
	if o.data == nil {
		return nil
	}
	if o.data.seen != nil {
		<-o.data.seen
	}
	return o.data.contents.at(path)
}

// appendOpened appends the decompressed value of an envelope as a bulk string.
func (o *replyDecoder) appendOpened(dst, stored []byte, h envelope.Header, bare bool) ([]byte, error) {
	switch {
	case !h.IsForeign():
		return o.codec.Sealer.OpenParsed(resp.AppendBulkHeader(dst, h.RawLen), stored, h)
	case bare:
		return o.codec.Sealer.OpenContentParsed(resp.AppendBulkHeader(dst, h.RawLen), stored, h)
	}
	value, err := o.codec.Sealer.OpenParsed(memory.GetBuffer(h.MaxValueLen()), stored, h)
	defer memory.PutBuffer(value)
	if err != nil {
		return dst, err
	}
	return append(resp.AppendBulkHeader(dst, len(value)), value...), nil
}
