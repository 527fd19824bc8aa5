//go:build cgo

package libzstd

import (
	"errors"
	"fmt"
	"io"

	"github.com/valyala/gozstd"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// streamWriter is a stream by libzstd. The library copies its input into memory that the garbage collector
// doesn't see: Close frees it.
type streamWriter struct {
	zstd  *gozstd.Writer
	out   []byte // the library's output, for one call
	begun bool
}

func (*coder) NewStreamWriter(level, window int) (codec.StreamWriter, error) {
	w := &streamWriter{}
	w.zstd = gozstd.NewWriterParams(w, &gozstd.WriterParams{CompressionLevel: level, WindowLog: window})
	return w, nil
}

func (w *streamWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

func (w *streamWriter) Append(dst, piece []byte) ([]byte, error) {
	if w.zstd == nil {
		return dst, codec.ErrClosed
	}
	w.out = dst
	_, err := w.zstd.Write(piece)
	if err == nil {
		err = w.zstd.Flush()
	}
	out := w.out
	w.out = nil
	if err == nil && !w.begun {
		w.begun = true
		out, err = codec.CutStreamHeader(out, len(dst))
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (w *streamWriter) Close() {
	if w.zstd != nil {
		w.zstd.Release()
		w.zstd = nil
	}
}

// streamReader is a stream by libzstd.
type streamReader struct {
	zstd     *gozstd.Reader
	head, in []byte // input for the library; in is the caller's, for one call
}

func (*coder) NewStreamReader(window int) (codec.StreamReader, error) {
	r := &streamReader{head: zstdframe.StreamHeader(nil, window)}
	r.zstd = gozstd.NewReader(r)
	return r, nil
}

func (r *streamReader) Read(p []byte) (int, error) {
	from := &r.in
	if len(r.head) > 0 {
		from = &r.head
	}
	if len(*from) == 0 {
		return 0, io.EOF // end of input for this piece only
	}
	n := copy(p, *from)
	*from = (*from)[n:]
	return n, nil
}

func (r *streamReader) Append(dst, src []byte, rawLen int) ([]byte, error) {
	if r.zstd == nil {
		return dst, codec.ErrClosed
	}
	start := len(dst)
	if cap(dst)-start < rawLen {
		dst = append(make([]byte, 0, start+rawLen), dst...)
	}
	dst = dst[:start+rawLen]
	r.in = src
	defer func() { r.in = nil }()
	if _, err := io.ReadFull(r.zstd, dst[start:]); err != nil {
		return dst[:start], fmt.Errorf("%w: %w", codec.ErrCorrupt, err)
	}
	var beyond [1]byte
	if _, err := r.zstd.Read(beyond[:]); !errors.Is(err, io.EOF) || len(r.in) > 0 {
		return dst[:start], fmt.Errorf("%w: it holds more than %d bytes", codec.ErrCorrupt, rawLen)
	}
	return dst, nil
}

func (r *streamReader) Close() {
	if r.zstd != nil {
		r.zstd.Release()
		r.zstd = nil
	}
}

// tableBytes holds the size of the library's match finder tables, by level.
var tableBytes = [codec.MaxStreamLevel + 1]int{
	1: 64 << 10, 2: 256 << 10, 3: 768 << 10, 4: 2 << 20, 5: 4 << 20, 6: 4 << 20, 7: 7 << 20, 8: 7 << 20, 9: 14 << 20,
}

// streamBytes is the size of either kind of state without window and tables: buffers for input and output,
// 128 KiB each, two more of the library's, and entropy tables.
const streamBytes = 640 << 10

func (*coder) StreamBytes(level, window int) (writer, reader int) {
	return 1<<window + tableBytes[level] + streamBytes, 1<<window + streamBytes
}
