package tarantool

import (
	"fmt"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// maxFrame is the longest frame in bytes that is taken, from either side.
const maxFrame = 512 << 20

var errTooLarge = fmt.Errorf("%w: over %d bytes", wire.ErrTooLarge, maxFrame)

// frame is one frame as it came. Its bytes live until the next one is read.
type frame struct {
	bytes  []byte // with the length in front
	prefix int    // bytes of that
}

// body is the frame without the length in front.
func (f *frame) body() []byte { return f.bytes[f.prefix:] }

// reader cuts one connection into frames. It belongs to one pump.
type reader struct {
	gateway.Inbound
	copies int // how many times a frame's length it takes to handle it
}

// next reads one frame. The one before must not be used any more. An error at the end of a
// frame is io.EOF or os.ErrDeadlineExceeded; both leave the reader as it was.
func (r *reader) next() (f frame, err error) {
	r.Release()
	n, prefix, err := r.length()
	if err != nil {
		return f, err
	}
	if n > maxFrame {
		return f, fmt.Errorf("%w: %d", errTooLarge, n)
	}
	if err := r.Expect(prefix+n, r.copies*n); err != nil {
		return f, err
	}
	if err := r.Whole(prefix + n); err != nil {
		return f, err
	}
	return frame{bytes: r.Take(prefix + n), prefix: prefix}, nil
}

// length reads the length in front of a frame.
func (r *reader) length() (n, prefix int, err error) {
	for {
		n, prefix, err = wire.Prefix(r.Unread())
		if err != nil || prefix > 0 {
			return n, prefix, err
		}
		if err = r.Fill(len(r.Unread()) + 1); err != nil {
			return 0, 0, err
		}
	}
}

// raw reads exactly n bytes, which are no frame.
func (r *reader) raw(n int) ([]byte, error) {
	r.Release()
	if err := r.Fill(n); err != nil {
		return nil, err
	}
	return r.Take(n), nil
}

// rest hands out what has been read already; the reader is empty then.
func (r *reader) rest() []byte {
	r.Release()
	return r.Take(len(r.Unread()))
}
