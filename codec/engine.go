package codec

import (
	"fmt"
	"runtime"

	"github.com/klauspost/compress/s2"
)

// ZstdCoder is an implementation of zstd: pure Go here, or libzstd. Both write the same format and read each
// other's frames. Implementations must be safe for concurrent use.
type ZstdCoder interface {
	// Name returns the name for logs and metrics: "go" or "libzstd".
	Name() string
	// Compress appends one frame without its magic number, or returns dst unchanged and an error. Level is 1
	// to 22, or 0 for the default of 3; d may be nil.
	Compress(dst, src []byte, level int, d *Dict) ([]byte, error)
	// Decompress appends exactly rawLen bytes, or returns dst unchanged and an error that wraps [ErrCorrupt].
	// It allocates at most rawLen bytes and a small constant, whatever src says.
	Decompress(dst, src []byte, rawLen int, d *Dict) ([]byte, error)
}

// Options configures an [Engine]. The zero value is the default.
type Options struct {
	Zstd        ZstdCoder // nil: pure Go
	MaxInFlight int       // maximum number of concurrent calls; 0: GOMAXPROCS
}

// Engine compresses and decompresses values. It is safe for concurrent use: calls beyond MaxInFlight wait, so
// there are never more states than that in use, and idle states are limited by their bytes. A call runs on
// its caller's goroutine and does not wait once it has started.
type Engine struct {
	zstd  ZstdCoder
	lz4   lz4Coder
	flate flateCoder
	turns chan struct{} // holds a token for each call in flight
}

// New returns an engine.
func New(o Options) *Engine {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = runtime.GOMAXPROCS(0)
	}
	if o.Zstd == nil {
		o.Zstd = NewGoZstd()
	}
	e := &Engine{zstd: o.Zstd, turns: make(chan struct{}, o.MaxInFlight)}
	e.lz4.init()
	e.flate.init()
	return e
}

// ZstdName returns the name of the zstd implementation: "go" or "libzstd".
func (e *Engine) ZstdName() string { return e.zstd.Name() }

// InFlight returns the number of calls that are compressing or decompressing, and its maximum. Waiting calls
// are not counted.
func (e *Engine) InFlight() (now, most int) { return len(e.turns), cap(e.turns) }

// MaxEncodedLen returns the free capacity in bytes with which a destination never has to grow when rawLen
// bytes are compressed by id.
func MaxEncodedLen(id ID, rawLen int) int {
	switch id {
	case Raw:
		return rawLen
	case Snappy, S2:
		return max(s2.MaxEncodedLen(rawLen), 0)
	case LZ4:
		return rawLen + rawLen/255 + 16
	case Zstd: // of both libraries, including magic number and dictionary ID
		return rawLen + rawLen>>8 + 128
	default: // src in stored blocks of 64 KiB, and the wrapping
		return rawLen + rawLen>>12 + 64
	}
}

// Compress appends src compressed by s to dst, which must not overlap src. d must be the dictionary that s
// names, nil if it names none. The result may be longer than src. On an error dst is returned unchanged; the
// error wraps [ErrSetting], [ErrDictionary], [ErrTooLarge] or [ErrUnknownCodec], or none of these if a library
// failed.
func (e *Engine) Compress(dst, src []byte, s Setting, d *Dict) (out []byte, err error) {
	if err := s.Validate(); err != nil {
		return dst, err
	}
	switch {
	case d == nil && s.Dict != 0:
		return dst, fmt.Errorf("%w: %s without its dictionary", ErrDictionary, s)
	case d != nil && d.number != s.Dict:
		return dst, fmt.Errorf("%w: %s with dictionary %08x", ErrDictionary, s, d.number)
	case s.Codec == Raw:
		return append(dst, src...), nil
	}
	e.turns <- struct{}{}
	defer func() {
		<-e.turns
		// A panic in a library is an error: compressing must not end the process. The state that was in use
		// is dropped.
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil {
			out, err = dst, fmt.Errorf("%s: %w", s, err)
		}
	}()
	switch s.Codec {
	case Snappy:
		return compressBlock(dst, src, s.Level, encodeSnappy)
	case S2:
		return compressBlock(dst, src, s.Level, encodeS2)
	case MinLZ:
		return compressMinLZ(dst, src, s.Level)
	case LZ4:
		return e.lz4.compress(dst, src, s.Level)
	case Zstd:
		return e.zstd.Compress(dst, src, s.Level, d)
	case Zlib, Gzip:
		return e.flate.compress(dst, src, s)
	default: // Validate accepts it, but no case above handles it
		return dst, ErrUnknownCodec
	}
}

// leave ends the turn of a stream's piece. It must be deferred. It turns a panic in a library into an error,
// as Compress and Decompress do for whole values. The error wraps kind unless that is nil.
func (e *Engine) leave(dst []byte, out *[]byte, err *error, kind error) {
	<-e.turns
	r := recover()
	switch {
	case r == nil:
	case kind == nil:
		*out, *err = dst, fmt.Errorf("panic: %v", r)
	default:
		*out, *err = dst, fmt.Errorf("%w: panic: %v", kind, r)
	}
}

// Decompress appends the rawLen bytes that src holds to dst, which must not overlap src. d must be the
// dictionary that src was compressed with, nil if there was none. Decompress allocates at most rawLen bytes
// and a small constant; the caller must have checked rawLen against its own limit. On an error
// dst is returned unchanged, although bytes beyond its length may have been overwritten; the error wraps
// [ErrCorrupt], [ErrDictionary] or [ErrUnknownCodec].
func (e *Engine) Decompress(dst, src []byte, id ID, rawLen int, d *Dict) (out []byte, err error) {
	switch {
	case !id.Known():
		return dst, fmt.Errorf("%w: %d", ErrUnknownCodec, uint8(id))
	case rawLen < 0:
		return dst, fmt.Errorf("%w: invalid length %d", ErrCorrupt, rawLen)
	case d != nil && id != Zstd:
		return dst, fmt.Errorf("%w: %s does not support dictionaries", ErrDictionary, id)
	case id == Raw:
		if len(src) != rawLen {
			return dst, wrongLen(len(src), rawLen)
		}
		return append(reserve(dst, rawLen), src...), nil
	}
	e.turns <- struct{}{}
	defer func() {
		<-e.turns
		if r := recover(); r != nil { // hostile bytes must not end the process
			err = fmt.Errorf("%w: panic: %v", ErrCorrupt, r)
		}
		if err != nil {
			out, err = dst, fmt.Errorf("%s: %w", id, err)
		}
	}()
	switch id {
	case Snappy, S2:
		return decompressBlock(dst, src, rawLen)
	case MinLZ:
		return decompressMinLZ(dst, src, rawLen)
	case LZ4:
		return decompressLZ4(dst, src, rawLen)
	case Zstd:
		return e.zstd.Decompress(dst, src, rawLen, d)
	case Zlib, Gzip:
		return e.flate.decompress(dst, src, id, rawLen)
	default: // Known accepts it, but no case above handles it
		return dst, ErrUnknownCodec
	}
}
