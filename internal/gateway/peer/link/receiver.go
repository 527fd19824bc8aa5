package link

import (
	"fmt"
	"hash/crc32"
	"net"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// receiver reads and decompresses frames. Only the goroutine that calls Next uses it.
type receiver struct {
	e    *Endpoint
	l    *Link
	conn net.Conn
	own  byte  // window that the hello of this side has granted
	kept int64 // memory reserved for own, in bytes

	buf     []byte     // read buffer; nil while the link is idle
	at, end int        // the unread part of buf
	memory  heldMemory // of buf, beyond readBytes

	stream  codec.StreamReader // nil: no history
	window  byte               // of stream, log2 of bytes
	granted byte               // largest window that the peer may use
	held    int64              // memory of histories for granted, in bytes; 0 while there is no history
	carried int64              // bytes of stream after decompression
	grow    int64              // value of carried from which on a larger window is granted
	epoch   byte               // number of DROPs received, modulo 256
	over    bool               // FIN was received

	speed arrival
}

func (r *receiver) init(l *Link, window byte, kept int64) {
	r.e, r.l, r.conn, r.own, r.granted, r.kept = l.e, l, l.conn, window, window, kept
	r.grow = r.e.cfg.Growth.worth(window)
}

// Next returns the next frame that carries bytes, or a Fin. It acts on all others. The frame is valid until the next
// call. Next calls flush before it waits for the link, and before it returns a ResetError, so that earlier bytes are
// passed on.
func (l *Link) Next(flush func() error) (wire.Frame, error) {
	r := &l.in // not deep in calls: the stack of an idle link stays as large as it was
	var began time.Time
	rest := 0
	for {
		f, size, err := wire.Parse(r.buf[r.at:r.end])
		if err != nil {
			return f, err
		}
		if size <= r.end-r.at {
			if rest > 0 {
				r.arrived(size, rest, time.Since(began))
			}
			r.at += size
			if own, err := r.notice(f, flush); own {
				rest = 0
				continue
			} else {
				return f, err
			}
		}
		if err := flush(); err != nil {
			return f, err
		}
		if r.at == r.end {
			r.release()
		}
		if err := r.read(size, flush); err != nil {
			return f, err
		}
		if rest == 0 { // measure from the first bytes on, which may have been in flight for any time
			began, rest = time.Now(), r.missing()
		}
	}
}

// notice acts on a frame that is for the link, and reports whether it is one. Others are left to the caller.
func (r *receiver) notice(f wire.Frame, flush func() error) (own bool, err error) {
	switch f.Kind {
	case wire.Block, wire.Piece, wire.Begin, wire.Fin:
		if r.over {
			return false, errOrder
		}
		r.over = f.Kind == wire.Fin
		return false, nil
	case wire.Reset:
		_ = flush()
		return false, ResetError{f.Reason}
	case wire.Grant:
		r.l.out.take(f)
	case wire.Drop:
		r.drop()
		r.l.wasForgotten()
	case wire.Speed:
		r.l.out.speed.told(f.Speed)
	default:
		return false, errOrder
	}
	return true, nil
}

// missing returns how many bytes of a large frame have not been read yet; 0 for a small one.
func (r *receiver) missing() int {
	_, size, err := wire.Parse(r.buf[r.at:r.end])
	if err != nil || size < sampleBytes {
		return 0
	}
	return max(size-(r.end-r.at), 0)
}

// read reads once, into a buffer with room for a frame of size bytes, or for the part of it that has arrived.
func (r *receiver) read(size int, flush func() error) error {
	if r.buf == nil {
		buf, n, err := gateway.ReadFirst(r.conn, readBytes)
		r.buf, r.at, r.end = buf, 0, n
		return err
	}
	if err := r.makeRoom(size, flush); err != nil {
		return err
	}
	r.memory.wait()
	n, err := r.conn.Read(r.buf[r.end:])
	r.memory.waited()
	r.end += n
	if n > 0 {
		return nil // the next Read returns it again
	}
	return err
}

// makeRoom makes room to read more of a frame of size bytes. It takes a larger buffer only when this one is full, so
// that memory follows the bytes that have arrived, not the declared size.
func (r *receiver) makeRoom(size int, flush func() error) error {
	switch {
	case r.at+size <= len(r.buf):
		return nil
	case size <= len(r.buf), r.end-r.at < len(r.buf):
		copy(r.buf, r.buf[r.at:r.end])
	default:
		// The claim includes the decompressed bytes of the frame, so that a link that has waited once need not wait
		// again.
		if err := r.memory.take(r.l.waiting, bufferBytes(size), bufferBytes(size)+gatherBytes, flush); err != nil {
			return err
		}
		grown := memory.GetBuffer(size)
		grown = grown[:cap(grown)]
		copy(grown, r.buf[r.at:r.end])
		memory.PutBuffer(r.buf)
		r.buf = grown
		r.memory.keep(bufferBytes(size))
	}
	r.at, r.end = 0, r.end-r.at
	return nil
}

func (r *receiver) release() {
	memory.PutBuffer(r.buf)
	r.buf, r.at, r.end = nil, 0, 0
	r.memory.keep(0)
}

// arrived adds a measurement, and sends SPEED at most once a second.
func (r *receiver) arrived(size, rest int, took time.Duration) {
	if speed, tell := r.speed.add(size, rest, took, time.Now()); tell {
		r.l.out.note(wire.Frame{Kind: wire.Speed, Speed: speed})
	}
}

// open appends the decompressed bytes of a Block, Piece or Begin to dst.
func (r *receiver) open(dst []byte, f wire.Frame) ([]byte, error) {
	if f.Kind == wire.Block && f.Codec == byte(codec.Raw) {
		if r.granted == 0 && f.RawLen >= minPieceBytes { // the peer can compress short pieces only with a history
			r.offerMore(f.RawLen)
		}
		return append(dst, f.Payload...), nil
	}
	began := time.Now()
	id, start := codec.Zstd, len(dst)
	var err error
	if f.Kind == wire.Block {
		id = codec.ID(f.Codec)
		if sends&(1<<f.Codec) == 0 {
			return dst, fmt.Errorf("%w: codec %d was not offered", wire.ErrMalformed, f.Codec)
		}
		dst, err = r.e.cfg.Engine.Decompress(dst, f.Payload, id, f.RawLen, nil)
	} else {
		dst, err = r.openPiece(dst, f)
	}
	if err != nil {
		return dst, err
	}
	if crc32.Checksum(dst[start:], castagnoli) != f.Sum {
		return dst[:start], errSum
	}
	took := time.Since(began)
	r.e.cfg.Stats.Opened(id, len(f.Payload), f.RawLen, took)
	if id == codec.Zstd {
		r.offerMore(f.RawLen)
	}
	return dst, nil
}

func (r *receiver) openPiece(dst []byte, f wire.Frame) ([]byte, error) {
	switch {
	case f.Kind == wire.Begin:
		if err := r.begin(f.Window); err != nil {
			return dst, err
		}
	case r.stream == nil:
		return dst, errOrder
	}
	return r.stream.Append(dst, f.Payload, f.RawLen)
}

// begin begins a new stream. Its memory was taken with the GRANT, or reserved with the hello.
func (r *receiver) begin(window byte) error {
	if window > r.granted {
		return fmt.Errorf("%w: a window of 2^%d, granted were 2^%d", wire.ErrMalformed, window, r.granted)
	}
	r.closeStream()
	if r.held == 0 {
		r.l.client.redeem(r.kept)
		r.held = r.kept
	}
	stream, err := r.e.cfg.Engine.StreamReader(int(window))
	if err != nil {
		return err
	}
	r.stream, r.window = stream, window
	r.carried, r.grow = 0, r.e.cfg.Growth.worth(window)
	return nil
}

// offerMore grants the peer a larger window if it has sent enough bytes for that (see Growth) and there is memory.
func (r *receiver) offerMore(rawLen int) {
	r.carried += int64(rawLen)
	if r.carried < r.grow || r.granted > r.window {
		return
	}
	next := nextWindow(r.granted, r.e.cfg.Window)
	if next <= r.granted {
		return
	}
	n := r.e.readerBytes(next)
	if !r.l.client.grab(n - r.held) {
		r.grow = 2 * r.carried
		return
	}
	r.held, r.granted = n, next
	r.l.out.note(wire.Frame{Kind: wire.Grant, Window: next, Epoch: r.epoch})
}

// drop drops the history of the peer's pieces, and takes grants back.
func (r *receiver) drop() {
	r.closeStream()
	if r.held > 0 {
		r.l.client.restore(r.held, r.kept)
	}
	r.held, r.granted, r.window = 0, r.own, 0
	r.carried, r.grow = 0, r.e.cfg.Growth.worth(r.own)
	r.epoch++
}

func (r *receiver) closeStream() {
	if r.stream != nil {
		r.stream.Close()
		r.stream = nil
	}
}

// free frees everything.
func (r *receiver) free() {
	r.release()
	r.drop()
	r.e.history.withdraw(r.kept)
	r.kept = 0
}
