package codec

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// A FrameWriter compresses one value while it arrives, from the memory that it arrives in, so
// that little is left to do when its last byte is there.
type FrameWriter interface {
	// Append is told that the first n bytes of the value are there, which then stay as they
	// are, and appends what becomes ready of its compressed form: all that is left of it when n
	// is the value's length, and nothing from then on. After an error it can only be closed.
	Append(dst []byte, n int) ([]byte, error)
	// Close ends it, also in the middle; the memory of the value is the caller's again.
	Close()
}

// ZstdFramer makes FrameWriters. What they append is a whole frame of the library's; they are not
// called again behind its end.
type ZstdFramer interface {
	NewFrameWriter(value []byte, level int) (FrameWriter, error)
	// FrameBytes estimates from above what a FrameWriter keeps alive beside the value.
	FrameBytes(rawLen, level int) int
}

// FrameBlock is a piece, in bytes, that FrameWriters compress at once. What is less waits for
// more, until the value is complete.
const FrameBlock = zstdframe.MaxBlock

// FrameWriter begins to compress value, whose bytes have yet to arrive, by s, a setting of zstd
// without a dictionary: with one libzstd's streams make more of a long value than its whole frames
// do, by a twentieth. All that Append gives, one behind the other, is what Compress would, though
// maybe not byte for byte.
func (e *Engine) FrameWriter(value []byte, s Setting) (FrameWriter, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Codec != Zstd || s.Dict != 0 || len(value) == 0 {
		return nil, fmt.Errorf("%w: %s makes no frames of %d bytes", ErrSetting, s, len(value))
	}
	w, err := e.framer().NewFrameWriter(value, zstdLevel(s.Level))
	if err != nil {
		return nil, err
	}
	return &turnFramer{e: e, w: w, rawLen: len(value)}, nil
}

// FrameBytes estimates from above what a FrameWriter keeps alive beside the value and what it
// appended.
func (e *Engine) FrameBytes(rawLen int, s Setting) int {
	return e.framer().FrameBytes(rawLen, zstdLevel(s.Level))
}

func zstdLevel(level int) int {
	if level == 0 {
		return defaultZstdLevel
	}
	return level
}

func (e *Engine) framer() ZstdFramer {
	if f, ok := e.zstd.(ZstdFramer); ok {
		return f
	}
	return (*GoZstd)(nil)
}

// turnFramer takes the engine's turns, as whole values do, and gives the frame the header that is
// stored.
type turnFramer struct {
	e      *Engine
	w      FrameWriter
	rawLen int
	begun  bool
	ended  bool
}

func (t *turnFramer) Append(dst []byte, n int) (out []byte, err error) {
	if t.ended { // the library would begin another frame
		return dst, nil
	}
	t.ended = n == t.rawLen
	t.e.turns <- struct{}{}
	defer t.e.leave(dst, &out, &err, nil)
	out, err = t.w.Append(dst, n)
	if err == nil && !t.begun && len(out) > len(dst) {
		t.begun = true
		out, err = zstdframe.Store(out, len(dst), t.rawLen)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (t *turnFramer) Close() { t.w.Close() }

// CheckFrame walks the blocks of what a FrameWriter made of a value of rawLen bytes: whether they are
// one whole frame that can hold those. It decodes nothing, and costs next to nothing.
func CheckFrame(payload []byte, rawLen int) error {
	_, err := zstdframe.Parse(payload, rawLen)
	return err
}

// goFrameWriter is a frame by the pure Go encoder, which keeps the history itself.
type goFrameWriter struct {
	zstd  *zstd.Encoder
	out   appender
	value []byte
	done  int // bytes of value
}

// NewFrameWriter implements [ZstdFramer].
func (*GoZstd) NewFrameWriter(value []byte, level int) (FrameWriter, error) {
	enc, err := newGoEncoder(encoderKey{level: goLevel(level, nil)}, false)
	if err != nil {
		return nil, err
	}
	w := &goFrameWriter{zstd: enc, value: value}
	enc.ResetContentSize(&w.out, int64(len(value)))
	return w, nil
}

// Append leaves the last block to the end of the value: the frame's last block must be marked,
// and an empty one behind it would cost.
func (w *goFrameWriter) Append(dst []byte, n int) ([]byte, error) {
	if w.zstd == nil {
		return dst, ErrClosed
	}
	if n < len(w.value) {
		n -= n % FrameBlock
	}
	w.out.b = dst
	_, err := w.zstd.Write(w.value[w.done:n])
	w.done = n
	if err == nil && n == len(w.value) {
		err = w.zstd.Close()
	}
	out := w.out.b
	w.out.b = nil
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (w *goFrameWriter) Close() { w.zstd, w.value = nil, nil }

// FrameBytes implements [ZstdFramer].
func (*GoZstd) FrameBytes(_, level int) int {
	return goEncoderBytes(encoderKey{level: goLevel(level, nil)}) + 2*FrameBlock
}
