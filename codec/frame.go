package codec

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// A FrameWriter compresses one value while it arrives, directly from the memory that it arrives in, so that
// little remains to be done after its last byte.
type FrameWriter interface {
	// Append compresses the first n bytes of the value, which have arrived and must not change any more. n
	// counts from the beginning of the value and must never decrease. Append appends the compressed data that
	// is ready: the complete rest if n is the value's length, and nothing after that. After an error the
	// writer can only be closed.
	Append(dst []byte, n int) ([]byte, error)
	// Close releases the writer, even if the frame is incomplete. After it the caller may reuse the value's
	// memory.
	Close()
}

// ZstdFramer is implemented by a [ZstdCoder] that makes FrameWriters. These append a whole frame, with its
// magic number, and are not called again after its end.
type ZstdFramer interface {
	NewFrameWriter(value []byte, level int) (FrameWriter, error)
	// FrameBytes returns an upper estimate, in bytes, of the memory that a FrameWriter holds, without the value.
	FrameBytes(rawLen, level int) int
}

// FrameBlock is the size in bytes of the pieces that FrameWriters compress. A smaller rest waits for more
// bytes, or for the end of the value.
const FrameBlock = zstdframe.MaxBlock

// FrameWriter starts to compress value, whose bytes have yet to arrive, by s. This must be a setting of zstd without a
// dictionary: with one, libzstd compresses a long value as a stream to a twentieth more bytes than as a whole. For
// other settings, and for an empty value, the error wraps [ErrSetting] or [ErrUnknownCodec]. The concatenated results
// of Append decompress as the result of Compress does, though their bytes may differ.
func (e *Engine) FrameWriter(value []byte, s Setting) (FrameWriter, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Codec != Zstd || s.Dict != 0 || len(value) == 0 {
		return nil, fmt.Errorf("%w: %s can't write a frame of %d bytes", ErrSetting, s, len(value))
	}
	w, err := e.framer().NewFrameWriter(value, zstdLevel(s.Level))
	if err != nil {
		return nil, err
	}
	return &turnFramer{e: e, w: w, rawLen: len(value)}, nil
}

// FrameBytes returns an upper estimate, in bytes, of the memory that a FrameWriter holds for a value of rawLen
// bytes, without the value and the appended data.
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

// turnFramer waits for the engine's turns, as whole values do, and replaces the frame's header by the stored
// form.
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

// CheckFrame returns an error unless payload, the concatenated results of a FrameWriter, is one whole frame
// that can hold a value of rawLen bytes. It walks over the blocks without decoding them, and costs very
// little.
func CheckFrame(payload []byte, rawLen int) error {
	_, err := zstdframe.Parse(payload, rawLen)
	return err
}

// goFrameWriter writes a frame with the pure Go encoder, which keeps the history itself.
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

// Append keeps back the last block until the end of the value: the frame's last block must be marked, and an
// additional empty one would cost bytes.
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
