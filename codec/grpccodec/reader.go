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
	// ErrCorrupt: the message is not what the encoding's writers write.
	ErrCorrupt = errors.New("grpccodec: corrupt message")
	// ErrTooLarge: the message would be longer than the limit.
	ErrTooLarge = errors.New("grpccodec: message too large")
)

// Reader decompresses one message at a time. It takes a decoder at the first
// Read and hands it back at the end of the message, at an error, or at Close,
// whatever comes first. It is not safe for concurrent use.
type Reader struct {
	set     *Set
	pool    *idle[frame.Decoder]
	id      codec.ID
	r       io.Reader
	decoder frame.Decoder // nil: not yet, or no longer
	turn    *turn
	left    int64 // how much the message may still become
	err     error // what Read goes on to return; nil before the end
}

// Read reads what was compressed. After Close it reports the end.
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

// end hands the decoder back and returns what Read reports from now on.
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

// Close hands the decoder back wherever the message was left. Calling it again
// does nothing.
func (r *Reader) Close() error {
	if r.err == nil {
		r.release(io.EOF)
	}
	return nil
}

// Reset makes the reader ready for another message, as connect-go's pools want
// it. It reads nothing yet.
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

// start lets the decoder see the message. Some read its header at once.
func (r *Reader) start() (err error) {
	defer r.caught(&err)
	r.decoder.Start(r.r)
	return nil
}

// release gives up whatever is held. Decoders start afresh with each message,
// whatever the last one did to them.
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
