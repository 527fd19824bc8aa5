package resp

import (
	"errors"
	"io"
)

// Source supplies a Reader with bytes.
type Source interface {
	io.Reader
	// ReadNext waits for bytes and only then takes a buffer of at least size bytes to read them into, so that
	// an idle connection holds none. n is 0 only with an error. The Reader returns the buffer through
	// Release, or as spare (else nil), to be used for bytes that have already arrived.
	ReadNext(spare []byte, size int) (buf []byte, n int, err error)
	// Release takes back a buffer of ReadNext.
	Release(buf []byte)
}

// Flusher holds references to bytes in a Reader's buffer. The Reader calls Flush before it waits for bytes
// and before it moves or releases its buffer; afterwards they must no longer be used.
type Flusher interface{ Flush() error }

// ErrLineTooLong reports a header line in a reply that is longer than any server sends.
var ErrLineTooLong = errors.New("resp: header line too long")

// Reader is a small buffered reader that holds no buffer while it waits for the first
// bytes of a frame. It is not safe for concurrent use.
type Reader struct {
	src  Source
	lent Flusher
	size int
	buf  []byte
	r, w int // buf[r:w] is unread
}

// NewReader returns a Reader that buffers up to size bytes.
func NewReader(src Source, lent Flusher, size int) *Reader {
	return &Reader{src: src, lent: lent, size: size}
}

// Buffered returns the unread bytes. They, and those that Discard drops, are valid until the next call that
// may read.
func (r *Reader) Buffered() []byte { return r.buf[r.r:r.w] }

// Full reports whether the buffer is full of unread bytes, so that Fill fails until a Discard.
func (r *Reader) Full() bool { return r.r == 0 && r.w == len(r.buf) && r.w > 0 }

// Discard drops n buffered bytes.
func (r *Reader) Discard(n int) {
	r.r += n
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
}

// Free releases the buffer without a Flush. Unread bytes are lost.
func (r *Reader) Free() {
	if r.buf != nil {
		r.src.Release(r.buf)
		r.buf, r.r, r.w = nil, 0, 0
	}
}

// Fill reads more bytes behind the buffered ones. It moves those to the front if there is no room, and
// returns io.ErrShortBuffer if the buffer is full.
func (r *Reader) Fill() error {
	if err := r.lent.Flush(); err != nil {
		return err
	}
	if r.r == r.w { // hold no buffer while waiting, unless bytes have already arrived
		spare := r.buf
		r.buf, r.r, r.w = nil, 0, 0
		buf, n, err := r.src.ReadNext(spare, r.size)
		r.buf, r.w = buf, n
		return err
	}
	if r.w == len(r.buf) {
		if r.r == 0 {
			return io.ErrShortBuffer
		}
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	return progress(n, err)
}

// progress drops an error that came with bytes: the next read returns it again. For a read without bytes or
// error it returns io.ErrNoProgress.
func progress(n int, err error) error {
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// Peek returns the next n bytes without consuming them; n must fit into the buffer.
func (r *Reader) Peek(n int) ([]byte, error) {
	for r.w-r.r < n {
		if err := r.Fill(); err != nil {
			return nil, noEOF(err, r.w-r.r)
		}
	}
	return r.buf[r.r : r.r+n], nil
}

// Line returns the next line with its CRLF, without consuming it.
func (r *Reader) Line() ([]byte, error) { return r.LineAt(0) }

// LineAt returns the line at offset off, with its CRLF, without consuming anything. The bytes before it must
// be buffered already.
func (r *Reader) LineAt(off int) ([]byte, error) {
	for seen := off; ; {
		if seen < r.w-r.r {
			if i := indexCRLF(r.buf[r.r+seen : r.w]); i >= 0 {
				return r.buf[r.r+off : r.r+seen+i+2], nil
			}
			seen = max(off, r.w-r.r-1)
		}
		if err := r.Fill(); err != nil {
			if errors.Is(err, io.ErrShortBuffer) {
				err = ErrLineTooLong
			}
			return nil, noEOF(err, r.w-r.r)
		}
	}
}

// BulkHeader consumes the header of a request's argument and returns its length. It accepts exactly what
// Parser accepts, since both must find the same end of a request. With ErrProtocol it consumes nothing.
func (r *Reader) BulkHeader() (int64, error) {
	for {
		buf := r.Buffered()
		if len(buf) > 0 && buf[0] != '$' {
			return 0, ErrProtocol
		}
		n, next, err := headerLine(buf, 0)
		if err != nil || next > 0 && (n < 0 || n > maxBulkBytes) {
			return 0, ErrProtocol
		}
		if next > 0 {
			r.Discard(next)
			return n, nil
		}
		if err := r.Fill(); err != nil {
			if errors.Is(err, io.ErrShortBuffer) {
				err = ErrProtocol
			}
			return 0, noEOF(err, 1)
		}
	}
}

// ReadFull consumes len(dst) bytes into dst.
func (r *Reader) ReadFull(dst []byte) error {
	n := copy(dst, r.buf[r.r:r.w])
	r.Discard(n)
	if n == len(dst) {
		return nil
	}
	if err := r.lent.Flush(); err != nil {
		return err
	}
	_, err := io.ReadFull(r.src, dst[n:])
	return noEOF(err, 1)
}

// Take consumes up to len(dst) bytes into dst with at most one read, so that a caller can
// go on after a read that timed out.
func (r *Reader) Take(dst []byte) (int, error) {
	if n := copy(dst, r.buf[r.r:r.w]); n > 0 || len(dst) == 0 {
		r.Discard(n)
		return n, nil
	}
	if err := r.lent.Flush(); err != nil {
		return 0, err
	}
	n, err := r.src.Read(dst)
	return n, progress(n, err)
}

// CopyTo consumes n bytes and passes them to write in pieces, which are valid until the next call that may
// read.
func (r *Reader) CopyTo(n int64, write func([]byte) error) error {
	for n > 0 {
		if r.r == r.w {
			if err := r.Fill(); err != nil {
				return noEOF(err, 1)
			}
		}
		piece := r.buf[r.r:min(int64(r.w), int64(r.r)+n)]
		if err := write(piece); err != nil {
			return err
		}
		n -= int64(len(piece))
		r.Discard(len(piece))
	}
	return nil
}

// noEOF turns an end of input in the middle of a frame into io.ErrUnexpectedEOF.
func noEOF(err error, had int) error {
	if had > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func indexCRLF(b []byte) int {
	for i := 0; i+1 < len(b); i++ {
		if b[i] == '\r' && b[i+1] == '\n' {
			return i
		}
	}
	return -1
}
