package redis

import (
	"bytes"
	"errors"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// internalReplies handles replies to the gateway's own requests for a client: those of the scripts that guard
// commands (guard.go), and those that the request pump waits for.
type internalReplies struct {
	frames  *frames
	decoder *replyDecoder
	copier  *copier
}

// sealedArray reports whether the current reply holds envelopes from a gateway script: an array that begins with the
// marker.
func (x *internalReplies) sealedArray() (bool, error) {
	line, h, err := x.frames.peek()
	if err != nil || h.Kind != resp.Array || h.N < 2 {
		return false, err
	}
	off := len(line)
	if line, err = x.frames.in.LineAt(off); err != nil || line[0] != resp.Bulk {
		return false, err
	}
	off += len(line)
	if h, err = resp.ParseHead(line); err != nil || h.N != int64(len(lua.Marker)) {
		return false, err
	}
	b, err := x.frames.in.Peek(off + len(lua.Marker))
	return err == nil && string(b[off:]) == lua.Marker, err
}

// carryComputed answers a read of an envelope. Any other reply is passed on.
func (x *internalReplies) carryComputed(o *entryData) error {
	if !o.wholeValue {
		sealed, err := x.sealedArray()
		if err != nil {
			return err
		}
		if !sealed {
			return x.copier.copy(shapeNone, nil)
		}
		if err := x.dropMarker(); err != nil {
			return err
		}
	}
	line, err := x.frames.in.Line()
	if err != nil {
		return err
	}
	h, err := resp.ParseHead(line)
	switch {
	case err != nil:
		return err
	case h.IsNull() && resp.IsWord(o.args[0], "digest"): // there is no digest of a missing key
		return x.copier.copy(shapeNone, nil)
	case h.IsNull():
		x.frames.in.Discard(len(line))
		return x.frames.emit(compute.Answer(nil, o.args, nil, false))
	case h.Kind != resp.Bulk:
		return x.carryRefusal(o, line)
	}
	x.frames.in.Discard(len(line))
	return x.computeOn(o, h.N)
}

// carryRefusal carries an error, unless the command would have reported another one first: some check their
// arguments before the type of the key. Other errors, such as for keys of another node, come before a command
// checks anything.
func (x *internalReplies) carryRefusal(o *entryData, line []byte) error {
	first := compute.Answer(nil, o.args, nil, false)
	if !o.wholeValue || first[0] != resp.Error || !bytes.HasPrefix(line, []byte("-WRONGTYPE ")) {
		return x.copier.copy(shapeNone, nil)
	}
	if err := x.copier.skip(); err != nil {
		return err
	}
	return x.frames.emit(first)
}

// computeOn answers a read of the current bulk string of n bytes.
func (x *internalReplies) computeOn(o *entryData, n int64) error {
	h, err := x.headerOf(n)
	if err != nil {
		return x.decoder.skipCorrupt(n, err)
	}
	if compute.IsLength(o.args) && !o.wholeValue && !h.IsForeign() {
		return x.lengthOf(n)
	}
	stored, err := x.decoder.stage(n, int64(openBytes(h)))
	if err != nil {
		return err
	}
	defer stored.free()
	value := memory.GetBuffer(h.MaxValueLen())
	defer func() { memory.PutBuffer(value) }()
	start := time.Now()
	if value, err = x.decoder.codec.Sealer.Open(value, stored.buf); err != nil {
		return x.decoder.emitCorrupt(err)
	}
	x.decoder.countOpened(stored.buf, &h, time.Since(start))
	return x.decoder.emitHeld(compute.Answer(nil, o.args, value, true), stored.n > 0)
}

// headerOf returns the header of the current n bytes; for an uncompressed value it has only RawLen.
func (x *internalReplies) headerOf(n int64) (envelope.Header, error) {
	plain := envelope.Header{RawLen: int(n)}
	if n < int64(len(envelope.Magic)) {
		return plain, nil
	}
	sealed, err := x.frames.beginsSealed(0)
	if err != nil || !sealed {
		return plain, err
	}
	return x.decoder.parseHeader(n)
}

// lengthOf answers STRLEN and HSTRLEN from the header alone. The script sent nothing else.
func (x *internalReplies) lengthOf(n int64) error {
	stored, err := x.decoder.stage(n, 0)
	if err != nil {
		return err
	}
	defer stored.free()
	h, err := envelope.ParseHeader(stored.buf)
	if err != nil {
		return x.decoder.emitCorrupt(err)
	}
	return x.frames.emit(resp.AppendInt(nil, int64(h.RawLen)))
}

// dropMarker consumes the beginning of a script's reply, up to the first envelope.
func (x *internalReplies) dropMarker() error {
	if err := x.frames.dropLine(); err != nil {
		return err
	}
	return x.copier.skip()
}

// carryAsk passes the envelopes in a guard's reply to the request pump, and any other reply to the client.
func (x *internalReplies) carryAsk(e *entry) error {
	sealed, err := x.sealedArray()
	if err != nil {
		return err
	}
	o := e.data
	if sealed && o.done == nil { // in EXEC the request pump no longer waits
		x.decoder.codec.Stats.Error("sealed_in_transaction")
		return x.copier.replace("ERR cinch: the value was compressed while this transaction was queued; try again")
	}
	if sealed {
		return x.capture(o)
	}
	if o.done != nil && x.isErrorLike(isNoGuard) {
		return x.capture(o)
	}
	if err := x.copyRenamed(e); err != nil {
		return err
	}
	o.delivered = true
	finish(o)
	return nil
}

// copyRenamed copies a reply. If it is an error, the name of the script that ran is replaced with the name of the
// client's script.
func (x *internalReplies) copyRenamed(e *entry) error {
	line, h, err := x.frames.peek()
	if err != nil {
		return err
	}
	ran, own := e.data.scriptNames[0], e.data.scriptNames[1]
	if h.Kind != resp.Error || ran == "" || cluster.IsRedirection(line) || !bytes.HasSuffix(line, crlf) {
		return x.copier.copyFor(e)
	}
	err = x.frames.emit(bytes.ReplaceAll(line, []byte(ran), []byte(own)))
	x.frames.in.Discard(len(line))
	return err
}

// carryFloat passes the server's "not a float" error to the request pump, since the value may be compressed.
func (x *internalReplies) carryFloat(o *entryData) error {
	if o.done != nil && x.isErrorLike(isNoFloat) {
		return x.capture(o)
	}
	if err := x.copier.copy(shapeNone, nil); err != nil {
		return err
	}
	o.delivered = true
	finish(o)
	return nil
}

func finish(o *entryData) {
	if o.done != nil {
		close(o.done)
	}
}

// isErrorLike reports whether the current reply is an error whose text satisfies is.
func (x *internalReplies) isErrorLike(is func(string) bool) bool {
	line, h, err := x.frames.peek()
	return err == nil && h.Kind == resp.Error && is(string(line[1:len(line)-2]))
}

// capture keeps a reply for the request pump: a scalar, a bulk string or a flat array of bulk strings.
func (x *internalReplies) capture(o *entryData) error {
	a := &o.answer
	line, h, err := x.frames.peek()
	if err != nil {
		return err
	}
	a.head, a.null, a.count = h.Kind, h.IsNull(), h.N
	if !h.IsString() && !h.IsAggregate() {
		a.text = string(line[1 : len(line)-2])
		err = x.copier.skip() // the line may be longer than the buffer
	} else {
		x.frames.in.Discard(len(line))
	}
	switch {
	case h.IsString() && h.N >= 0:
		a.body, err = x.captureBulk(o, h.N)
	case h.IsAggregate():
		err = x.captureList(o, h.N)
	}
	if err == nil {
		finish(o)
	}
	return err
}

func (x *internalReplies) captureBulk(o *entryData, n int64) ([]byte, error) {
	switch {
	case n > int64(x.decoder.codec.maxOpen+envelope.MaxHeaderLen):
		return nil, x.frames.in.CopyTo(n+2, discardBytes)
	case n <= freeBytes:
		b := make([]byte, n+2)
		err := x.frames.in.ReadFull(b)
		return b[:n], err
	}
	h := stagedPiece{decoder: x.decoder, noWait: o.held > 0} // an answer that holds some must not wait for more
	err := h.read(n, 0)
	if errors.Is(err, errNoMemory) {
		left := n + 2 - int64(len(h.buf))
		h.free()
		return nil, x.frames.in.CopyTo(left, discardBytes)
	}
	o.held += h.n
	return h.buf[:min(n, int64(len(h.buf)))], err
}

// maxListBytes limits a captured list.
const maxListBytes = 64 << 20

func (x *internalReplies) captureList(o *entryData, n int64) error {
	total := int64(0)
	for range n {
		line, h, err := x.frames.peek()
		if err != nil {
			return err
		}
		var item []byte
		o.answer.truncated = o.answer.truncated || total > maxListBytes
		if h.Kind == resp.Integer {
			item, err = bytes.Clone(line[1:len(line)-2]), x.frames.dropLine()
		} else if h.Kind != resp.Bulk || h.N < 0 || o.answer.truncated {
			err = x.copier.skip()
		} else if err = x.frames.dropLine(); err == nil {
			item, err = x.captureBulk(o, h.N)
		}
		if err != nil {
			return err
		}
		if total += h.N + 64; !o.answer.truncated {
			o.answer.list = append(o.answer.list, item)
		}
	}
	return nil
}

// carryScriptExists carries the reply to SCRIPT EXISTS, a list of 0 and 1. Scripts not known here are reported as
// 0.
func (x *internalReplies) carryScriptExists(known []bool) error {
	line, h, err := x.frames.peek()
	if err != nil || h.Kind != resp.Array || h.N != int64(len(known)) {
		if err == nil {
			err = x.copier.copy(shapeNone, nil)
		}
		return err
	}
	if err := x.frames.emitLine(line); err != nil {
		return err
	}
	for _, here := range known {
		if here {
			err = x.copier.copy(shapeNone, nil)
		} else if err = x.copier.skip(); err == nil {
			err = x.frames.emit(resp.AppendInt(nil, 0))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
