package codec

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// Limits of streams with history. Higher levels would cost tens of megabytes per stream.
const (
	MinStreamWindow = 16 // log2 of bytes
	MaxStreamWindow = 23
	MaxStreamLevel  = 9
)

// ErrClosed is returned by streams after Close.
var ErrClosed = errors.New("codec: stream is closed")

// A StreamWriter compresses a stream piece by piece, each with the history of the previous ones. It is the
// state of one stream and not safe for concurrent use. After an error it can only be closed.
type StreamWriter interface {
	// Append compresses a piece and appends the result to dst, which must not overlap piece. Nothing is held
	// back: with the previous pieces, the result and the piece's length a reader can restore the piece. The
	// result does not hold that length, so the caller has to send it too.
	Append(dst, piece []byte) ([]byte, error)
	// Close releases the writer's memory, at any time. Further calls of Append return [ErrClosed].
	Close()
}

// A StreamReader restores what a StreamWriter made: all pieces, in the same order. It is not safe for
// concurrent use. After an error it can only be closed.
type StreamReader interface {
	// Append appends the piece of rawLen bytes that src holds to dst, which must not overlap src. On an error,
	// which wraps [ErrCorrupt], it returns dst unchanged. Whatever src contains, it uses no more memory than
	// rawLen bytes, the window and a constant; the caller must have checked rawLen against its own limit.
	Append(dst, src []byte, rawLen int) ([]byte, error)
	// Close releases the reader's memory, at any time. Further calls of Append return [ErrClosed].
	Close()
}

// ZstdStreamer is implemented by a [ZstdCoder] that makes the states of streams. A stream consists of whole
// zstd blocks, without frame header and end. window is the log2 of the history's size in bytes, the same on
// both sides.
type ZstdStreamer interface {
	NewStreamWriter(level, window int) (StreamWriter, error)
	NewStreamReader(window int) (StreamReader, error)
	// StreamBytes returns upper estimates, in bytes, of the memory that a writer and a reader hold.
	StreamBytes(level, window int) (writer, reader int)
}

// StreamWriter returns a zstd compressor for one stream. level is 1 to [MaxStreamLevel]; window is the log2 of
// the history's size in bytes, from [MinStreamWindow] to [MaxStreamWindow]. For other numbers the error wraps
// [ErrSetting].
func (e *Engine) StreamWriter(level, window int) (StreamWriter, error) {
	if level < 1 || level > MaxStreamLevel {
		return nil, fmt.Errorf("%w: streams have levels 1 to %d, not %d", ErrSetting, MaxStreamLevel, level)
	}
	if err := checkWindow(window); err != nil {
		return nil, err
	}
	w, err := e.streamer().NewStreamWriter(level, window)
	return &turnWriter{e, w}, err
}

// StreamReader returns the decompressor for one stream. window must be that of the writer. If it is out of
// range the error wraps [ErrSetting].
func (e *Engine) StreamReader(window int) (StreamReader, error) {
	if err := checkWindow(window); err != nil {
		return nil, err
	}
	r, err := e.streamer().NewStreamReader(window)
	return &turnReader{e, r}, err
}

// StreamBytes returns upper estimates, in bytes, of the memory that a [StreamWriter] of this level and window,
// and its [StreamReader], hold.
func (e *Engine) StreamBytes(level, window int) (writer, reader int) {
	return e.streamer().StreamBytes(level, window)
}

func checkWindow(window int) error {
	if window < MinStreamWindow || window > MaxStreamWindow {
		return fmt.Errorf("%w: invalid window of 2^%d bytes", ErrSetting, window)
	}
	return nil
}

func (e *Engine) streamer() ZstdStreamer {
	if s, ok := e.zstd.(ZstdStreamer); ok {
		return s
	}
	return (*GoZstd)(nil)
}

// turnWriter takes one of the engine's turns for each piece, as Compress does for each value.
type turnWriter struct {
	e *Engine
	w StreamWriter
}

func (t *turnWriter) Append(dst, piece []byte) (out []byte, err error) {
	t.e.turns <- struct{}{}
	defer t.e.leave(dst, &out, &err, nil)
	return t.w.Append(dst, piece)
}

func (t *turnWriter) Close() { t.w.Close() }

type turnReader struct {
	e *Engine
	r StreamReader
}

func (t *turnReader) Append(dst, src []byte, rawLen int) (out []byte, err error) {
	if err := zstdframe.CheckPiece(src, rawLen); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	t.e.turns <- struct{}{}
	defer t.e.leave(dst, &out, &err, ErrCorrupt)
	return t.r.Append(dst, src, rawLen)
}

func (t *turnReader) Close() { t.r.Close() }

// goStreamWriter is a stream by the pure Go encoder.
type goStreamWriter struct {
	zstd  *zstd.Encoder
	out   appender
	begun bool
}

// appender is the output of an encoder: the caller's slice, for one call.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// NewStreamWriter implements [ZstdStreamer].
func (*GoZstd) NewStreamWriter(level, window int) (StreamWriter, error) {
	w := &goStreamWriter{}
	var err error
	w.zstd, err = zstd.NewWriter(&w.out,
		zstd.WithEncoderLevel(goStreamLevel(level)),
		zstd.WithWindowSize(1<<window),
		zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false),
		zstd.WithAllLitEntropyCompression(true),
	)
	return w, err
}

// goStreamLevel excludes the best encoder, which keeps 34 MiB of tables.
func goStreamLevel(level int) zstd.EncoderLevel {
	return min(zstd.EncoderLevelFromZstd(level), zstd.SpeedBetterCompression)
}

func (w *goStreamWriter) Append(dst, piece []byte) ([]byte, error) {
	if w.zstd == nil {
		return dst, ErrClosed
	}
	w.out.b = dst
	_, err := w.zstd.Write(piece)
	if err == nil {
		err = w.zstd.Flush()
	}
	out := w.out.b
	w.out.b = nil
	if err == nil && !w.begun {
		w.begun = true
		out, err = CutStreamHeader(out, len(dst))
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// CutStreamHeader removes the frame header at b[start:], in place. If there is none it returns b[:start] and an
// error. It is for implementations of [ZstdStreamer].
func CutStreamHeader(b []byte, start int) ([]byte, error) {
	if len(b) < start+zstdframe.StreamHeaderLen || string(b[start:start+4]) != zstdframe.Magic || b[start+4] != 0 {
		return b[:start], errors.New("codec: unexpected header of a zstd stream")
	}
	return append(b[:start], b[start+zstdframe.StreamHeaderLen:]...), nil
}

func (w *goStreamWriter) Close() { w.zstd = nil } // without the library's Close, which would write an end

// goStreamReader is a stream by the pure Go decoder. It decodes on the caller's goroutine and reads block by
// block, so that it stops exactly at the end of a piece.
type goStreamReader struct {
	zstd *zstd.Decoder
	in   feed
}

// feed is the input of a decoder: the header, then the caller's slice for one call.
type feed struct{ head, b []byte }

func (f *feed) Read(p []byte) (int, error) {
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	if len(f.b) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, f.b)
	f.b = f.b[n:]
	return n, nil
}

// NewStreamReader implements [ZstdStreamer].
func (*GoZstd) NewStreamReader(window int) (StreamReader, error) {
	r := &goStreamReader{in: feed{head: zstdframe.StreamHeader(nil, window)}}
	var err error
	r.zstd, err = zstd.NewReader(&r.in,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(1<<window),
		zstd.WithDecoderMaxMemory(1<<62), // for the whole stream, which has no end
	)
	return r, err
}

func (r *goStreamReader) Append(dst, src []byte, rawLen int) ([]byte, error) {
	if r.zstd == nil {
		return dst, ErrClosed
	}
	r.in.b = src
	start := len(dst)
	dst = reserve(dst, rawLen)[:start+rawLen]
	_, err := io.ReadFull(r.zstd, dst[start:])
	left := len(r.in.b)
	r.in.b = nil
	if err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if left > 0 {
		return dst[:start], fmt.Errorf("%w: it holds more than %d bytes", ErrCorrupt, rawLen)
	}
	return dst, nil
}

func (r *goStreamReader) Close() {
	if r.zstd != nil {
		r.zstd.Close()
		r.zstd = nil
	}
}

// StreamBytes implements [ZstdStreamer].
func (*GoZstd) StreamBytes(level, window int) (writer, reader int) {
	tables := goEncoderBytes(encoderKey{level: goStreamLevel(level)}) - goWindow(goStreamLevel(level))
	return 1<<window + tables + 512<<10, 2<<window + goDecoderBytes
}
