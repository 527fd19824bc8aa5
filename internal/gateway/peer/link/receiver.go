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

// receiver reads frames from the link. It belongs to the pump that does.
type receiver struct {
	e    *Endpoint
	l    *Link
	conn net.Conn
	own  byte  // window that our hello granted
	kept int64 // of the endpoint's history, for own

	buf     []byte     // nil while nothing is there
	at, end int        // what has been read and not handed out
	memory  heldMemory // of buf, beyond readBytes

	stream  codec.StreamReader
	window  byte  // of stream
	granted byte  // that the peer may use
	held    int64 // of the endpoint's history, for granted; 0 while nothing is remembered
	carried int64 // raw bytes of stream
	grow    int64 // carried at which to look for memory again
	epoch   byte  // DROPs received
	over    bool  // FIN came

	speed arrival
}

func (r *receiver) init(l *Link, window byte, kept int64) {
	r.e, r.l, r.conn, r.own, r.granted, r.kept = l.e, l, l.conn, window, window, kept
	r.grow = r.e.cfg.Growth.worth(window)
}

// Next returns the next frame with bytes, or a Fin; the first lives until the next call. It calls flush before it waits for
// the link, and before it returns a ResetError: bytes that came before are to be passed on.
func (l *Link) Next(flush func() error) (wire.Frame, error) {
	r := &l.in // no call deeper than need be: the stack lasts while the link is idle
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
		if rest == 0 { // the first bytes of a frame may have been under way for any time
			began, rest = time.Now(), r.missing()
		}
	}
}

// notice acts on a frame that holds nothing to pass on. The others are the caller's.
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

// missing is the number of bytes of a large frame that are still to come.
func (r *receiver) missing() int {
	_, size, err := wire.Parse(r.buf[r.at:r.end])
	if err != nil || size < sampleBytes {
		return 0
	}
	return max(size-(r.end-r.at), 0)
}

// read reads once, with room for a frame of size bytes, or for what has come of it.
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
		return nil // the error comes again
	}
	return err
}

// makeRoom sees to it that more of a frame of size bytes can be read. A larger buffer is taken only when this one is full:
// memory follows what comes, not what is declared.
func (r *receiver) makeRoom(size int, flush func() error) error {
	switch {
	case r.at+size <= len(r.buf):
		return nil
	case size <= len(r.buf), r.end-r.at < len(r.buf):
		copy(r.buf, r.buf[r.at:r.end])
	default:
		// With the frame's bytes, which follow, so that a link that has waited once need not wait again.
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

// arrived tells the peer how fast the link is, now and then.
func (r *receiver) arrived(size, rest int, took time.Duration) {
	if speed, tell := r.speed.add(size, rest, took, time.Now()); tell {
		r.l.out.note(wire.Frame{Kind: wire.Speed, Speed: speed})
	}
}

// open appends the bytes of a Block, Piece or Begin.
func (r *receiver) open(dst []byte, f wire.Frame) ([]byte, error) {
	if f.Kind == wire.Block && f.Codec == byte(codec.Raw) {
		if r.granted == 0 && f.RawLen >= minPieceBytes { // alone, small pieces gain nothing
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

// begin makes a new stream. Its memory has been taken with the grant, or was promised by the hello.
func (r *receiver) begin(window byte) error {
	if window > r.granted {
		return fmt.Errorf("%w: a window of 2^%d, granted were 2^%d", wire.ErrMalformed, window, r.granted)
	}
	r.closeStream()
	if r.held == 0 {
		r.e.history.redeem(r.kept)
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

// offerMore grants the peer a larger window once it has sent what makes that worth it, when
// there is memory.
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
	if !r.e.history.grab(n - r.held) {
		r.grow = 2 * r.carried
		return
	}
	r.held, r.granted = n, next
	r.l.out.note(wire.Frame{Kind: wire.Grant, Window: next, Epoch: r.epoch})
}

// drop forgets the peer's history, and what was granted for it.
func (r *receiver) drop() {
	r.closeStream()
	if r.held > 0 {
		r.e.history.restore(r.held, r.kept)
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

// free gives everything back.
func (r *receiver) free() {
	r.release()
	r.drop()
	r.e.history.withdraw(r.kept)
	r.kept = 0
}
