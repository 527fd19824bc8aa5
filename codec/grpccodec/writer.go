package grpccodec

import (
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec/internal/frame"
)

// ErrClosed is the error of writing after Close, or before the first Reset.
var ErrClosed = errors.New("grpccodec: writer is closed")

// Writer compresses one message at a time. It takes an encoder at the first Write and returns it at Close, or
// at the first error. It is not safe for concurrent use.
type Writer struct {
	set     *Set
	kinds   kinds
	pool    *idle[frame.Encoder] // of the encoder in use
	setting codec.Setting
	w       io.Writer
	encoder frame.Encoder // nil: not yet, or no longer
	turn    *turn
	err     error // why nothing can be written any more; nil before the end
}

// Write compresses p. The data written to the underlying writer is never more than a few blocks behind.
func (w *Writer) Write(p []byte) (n int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.begin(len(p)); err != nil {
		return 0, err
	}
	defer w.caught(&err)
	if n, err = w.encoder.Write(p); err != nil {
		w.fail(err)
	}
	return n, err
}

// Close writes the end of the message. It does not close the underlying writer. Further calls have no effect;
// after an error of Write or Close they return that error.
func (w *Writer) Close() (err error) {
	switch {
	case errors.Is(w.err, ErrClosed):
		return nil
	case w.err != nil:
		return w.err
	}
	if err := w.begin(0); err != nil {
		return err
	}
	defer w.caught(&err)
	if err := w.encoder.Close(); err != nil {
		w.fail(err)
		return err
	}
	w.pool.put(w.encoder)
	w.release(ErrClosed)
	return nil
}

// Reset prepares the writer for another message, as connect-go's pools require. A message that was not closed
// stays incomplete, and its encoder is dropped.
func (w *Writer) Reset(to io.Writer) {
	w.release(nil)
	w.w = to
	w.err = nil
}

// begin takes an encoder for a message that begins with n bytes.
func (w *Writer) begin(n int) error {
	if w.encoder != nil {
		return nil
	}
	w.turn = w.set.encoding.take()
	kind := w.kinds.of(n)
	w.pool = kind.pool
	encoder, ok := w.pool.take()
	if !ok {
		var err error
		if encoder, err = w.set.newEncoder(kind.setting); err != nil {
			w.release(err)
			return err
		}
	}
	w.encoder = encoder
	encoder.Start(w.w)
	return nil
}

// fail ends the message. The encoder is dropped.
func (w *Writer) fail(err error) { w.release(err) }

// release releases the encoder and the turn.
func (w *Writer) release(err error) {
	w.set.encoding.give(w.turn)
	w.encoder, w.turn, w.w, w.err = nil, nil, nil, err
}

// caught turns a panic in a library, or in the underlying writer, into an error: one message must not end the
// process, nor keep its turn.
func (w *Writer) caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("grpccodec: %s: panic: %v", w.setting, r)
		w.fail(*err)
	}
}
