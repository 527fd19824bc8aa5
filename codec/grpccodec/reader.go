package grpccodec

import (
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec/internal/frame"
	"github.com/cinch-layer/cinch/codec/proto"
)

// Errors of decompression that callers tell apart.
var (
	// ErrCorrupt reports a message that the encoding's writers do not write.
	ErrCorrupt = errors.New("grpccodec: corrupt message")
	// ErrTooLarge reports a message that is longer than maxSize or MaxDecodedBytes.
	ErrTooLarge = errors.New("grpccodec: message too large")
)

// Reader decompresses one message at a time. It takes a decoder at the first Read and returns it at the end
// of the message, at an error, or at Close, whichever comes first. It is not safe for concurrent use.
type Reader struct {
	set     *Set
	pool    *idle[frame.Decoder]
	id      codec.ID
	r       io.Reader
	decoder frame.Decoder // nil: not yet, or no longer
	turn    *turn
	left    int64 // how long the rest of the message may be
	err     error // what Read returns from now on; nil before the end
}

// Read reads decompressed bytes. At the end of the message, and after Close, it returns io.EOF. Other errors
// wrap [ErrTooLarge] or [ErrCorrupt]; the latter also if the underlying reader failed, whose error they wrap.
func (r *Reader) Read(p []byte) (n int, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.begin(); err != nil {
		return 0, err
	}
	defer r.caught(&err)
	n, err = r.decoder.Read(p)
	if r.left -= int64(n); r.left < 0 {
		n += int(r.left)
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, r.set.options.MaxDecodedBytes)
	}
	if err == nil {
		return n, nil
	}
	return n, r.end(err)
}

// end returns the decoder and sets the error of further Reads.
func (r *Reader) end(err error) error {
	switch {
	case err == io.EOF || errors.Is(err, ErrTooLarge):
	case errors.Is(err, proto.ErrTooLarge):
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	default:
		err = fmt.Errorf("%w: %s: %w", ErrCorrupt, r.id, err)
	}
	r.release(err)
	return err
}

// Close returns the decoder at any point of the message. It does not close the underlying reader. Further
// calls have no effect.
func (r *Reader) Close() error {
	if r.err == nil {
		r.release(io.EOF)
	}
	return nil
}

// Reset prepares the reader for another message, as connect-go's pools require. It reads nothing yet.
func (r *Reader) Reset(from io.Reader) error {
	r.release(nil)
	r.r = from
	r.left = r.set.limit()
	return nil
}

func (r *Reader) begin() error {
	if r.decoder != nil {
		return nil
	}
	r.turn = r.set.decoding.take()
	decoder, ok := r.pool.take()
	if !ok {
		var err error
		if decoder, err = r.set.newDecoder(r.id); err != nil {
			r.release(err)
			return err
		}
	}
	r.decoder = decoder
	return r.start()
}

// start passes the message to the decoder. Some decoders read its header at once.
func (r *Reader) start() (err error) {
	defer r.caught(&err)
	r.decoder.Start(r.r)
	return nil
}

// release releases the decoder and the turn. Decoders start afresh with each message, whatever the last one
// contained.
func (r *Reader) release(err error) {
	if r.decoder != nil {
		r.decoder.Stop()
		r.pool.put(r.decoder)
	}
	r.set.decoding.give(r.turn)
	r.decoder, r.turn, r.r, r.err = nil, nil, nil, err
}

// caught turns a panic in a library into an error. The decoder is dropped.
func (r *Reader) caught(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%w: %s: panic: %v", ErrCorrupt, r.id, v)
		r.decoder = nil
		r.release(*err)
	}
}
