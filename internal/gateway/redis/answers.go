package redis

import (
	"bytes"
	"errors"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// answers handles replies to the gateway's own requests for a client: those of the scripts that guard
// commands (guard.go), and those that the request pump waits for.
type answers struct {
	frames  *frames
	opening *opening
	copier  *copier
}

// sealedArray reports whether the current reply is how a gateway script returns envelopes: an array that
// begins with the marker.
func (x *answers) sealedArray() (bool, error) {
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
func (x *answers) carryComputed(o *op) error {
	if !o.plain {
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
func (x *answers) carryRefusal(o *op, line []byte) error {
	first := compute.Answer(nil, o.args, nil, false)
	if !o.plain || first[0] != resp.Error || !bytes.HasPrefix(line, []byte("-WRONGTYPE ")) {
		return x.copier.copy(shapeNone, nil)
	}
	if err := x.copier.skip(); err != nil {
		return err
	}
	return x.frames.emit(first)
}

// computeOn answers a read of the current bulk string of n bytes.
func (x *answers) computeOn(o *op, n int64) error {
	h, err := x.headerOf(n)
	if err != nil {
		return x.opening.skipBroken(n, err)
	}
	if compute.IsLength(o.args) && !o.plain && !h.IsForeign() {
		return x.lengthOf(n)
	}
	stored, err := x.opening.stage(n, int64(openBytes(h)))
	if err != nil {
		return err
	}
	defer stored.free()
	value := memory.GetBuffer(h.MaxValueLen())
	defer func() { memory.PutBuffer(value) }()
	start := time.Now()
	if value, err = x.opening.vault.Sealer.Open(value, stored.buf); err != nil {
		return x.opening.broken(err)
	}
	x.opening.opened(stored.buf, &h, time.Since(start))
	return x.opening.emitHeld(compute.Answer(nil, o.args, value, true), stored.n > 0)
}

// headerOf returns the header of the current n bytes; for an uncompressed value it has only RawLen.
func (x *answers) headerOf(n int64) (cinch.Header, error) {
	plain := cinch.Header{RawLen: int(n)}
	if n < int64(len(cinch.Magic)) {
		return plain, nil
	}
	sealed, err := x.frames.beginsSealed(0)
	if err != nil || !sealed {
		return plain, err
	}
	return x.opening.declared(n)
}

// lengthOf answers STRLEN and HSTRLEN from the header alone. The script sent nothing else.
func (x *answers) lengthOf(n int64) error {
	stored, err := x.opening.stage(n, 0)
	if err != nil {
		return err
	}
	defer stored.free()
	h, err := cinch.ParseHeader(stored.buf)
	if err != nil {
		return x.opening.broken(err)
	}
	return x.frames.emit(resp.AppendInt(nil, int64(h.RawLen)))
}

// dropMarker consumes the beginning of a script's reply, up to the first envelope.
func (x *answers) dropMarker() error {
	if err := x.frames.dropLine(); err != nil {
		return err
	}
	return x.copier.skip()
}

// carryAsk passes the envelopes in a guard's reply to the request pump, and any other reply to the client.
func (x *answers) carryAsk(e *entry) error {
	sealed, err := x.sealedArray()
	if err != nil {
		return err
	}
	o := e.op
	if sealed && o.done == nil { // in EXEC the request pump no longer waits
		x.opening.vault.Stats.Error("sealed_in_transaction")
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
	o.given = true
	finish(o)
	return nil
}

// copyRenamed copies a reply. In an error it replaces the name of the script that ran by that of the
// client's.
func (x *answers) copyRenamed(e *entry) error {
	line, h, err := x.frames.peek()
	if err != nil {
		return err
	}
	ran, own := e.op.renames[0], e.op.renames[1]
	if h.Kind != resp.Error || ran == "" || cluster.IsRedirection(line) || !bytes.HasSuffix(line, crlf) {
		return x.copier.copyFor(e)
	}
	err = x.frames.emit(bytes.ReplaceAll(line, []byte(ran), []byte(own)))
	x.frames.in.Discard(len(line))
	return err
}

// carryFloat passes the server's "not a float" error to the request pump, since the value may be compressed.
func (x *answers) carryFloat(o *op) error {
	if o.done != nil && x.isErrorLike(isNoFloat) {
		return x.capture(o)
	}
	if err := x.copier.copy(shapeNone, nil); err != nil {
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

// isErrorLike reports whether the current reply is an error whose text satisfies is.
func (x *answers) isErrorLike(is func(string) bool) bool {
	line, h, err := x.frames.peek()
	return err == nil && h.Kind == resp.Error && is(string(line[1:len(line)-2]))
}

// capture keeps a reply for the request pump: a scalar, a bulk string or a flat array of bulk strings.
func (x *answers) capture(o *op) error {
	a := &o.answer
	line, h, err := x.frames.peek()
	if err != nil {
		return err
	}
	a.head, a.null, a.count = h.Kind, h.IsNull(), h.N
	if !h.IsString() && !h.IsAggregate() {
		a.text = string(line[1 : len(line)-2])
	}
	x.frames.in.Discard(len(line))
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

func (x *answers) captureBulk(o *op, n int64) ([]byte, error) {
	switch {
	case n > int64(x.opening.vault.maxOpen+cinch.MaxHeaderLen):
		return nil, x.frames.in.CopyTo(n+2, swallow)
	case n <= freeBytes:
		b := make([]byte, n+2)
		err := x.frames.in.ReadFull(b)
		return b[:n], err
	}
	h := held{opening: x.opening, impatient: o.held > 0} // an answer that holds some must not wait for more
	err := h.read(n, 0)
	if errors.Is(err, errNoRoom) {
		left := n + 2 - int64(len(h.buf))
		h.free()
		return nil, x.frames.in.CopyTo(left, swallow)
	}
	o.held += h.n
	return h.buf[:min(n, int64(len(h.buf)))], err
}

// maxListBytes limits a captured list.
const maxListBytes = 64 << 20

func (x *answers) captureList(o *op, n int64) error {
	total := int64(0)
	for range n {
		line, h, err := x.frames.peek()
		if err != nil {
			return err
		}
		var item []byte
		o.answer.cut = o.answer.cut || total > maxListBytes
		if h.Kind == resp.Integer {
			item, err = bytes.Clone(line[1:len(line)-2]), x.frames.dropLine()
		} else if h.Kind != resp.Bulk || h.N < 0 || o.answer.cut {
			err = x.copier.skip()
		} else if err = x.frames.dropLine(); err == nil {
			item, err = x.captureBulk(o, h.N)
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

// carryLoaded carries the reply to SCRIPT EXISTS, a list of 0 and 1. Scripts not known here are reported as
// 0.
func (x *answers) carryLoaded(known []bool) error {
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
