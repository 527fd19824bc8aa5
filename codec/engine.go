package codec

import (
	"fmt"
	"runtime"

	"github.com/klauspost/compress/s2"
)

// ZstdCoder is an implementation of zstd: pure Go here, or libzstd. Both
// write the same format and read each other's frames. Implementations are
// safe for concurrent use.
type ZstdCoder interface {
	// Name is for logs and metrics: "go" or "libzstd".
	Name() string
	// Compress appends one frame without its magic number, or returns dst as
	// it was and an error. Level is 1 to 22, or 0 for the default of 3; d may
	// be nil.
	Compress(dst, src []byte, level int, d *Dict) ([]byte, error)
	// Decompress appends exactly rawLen bytes, or returns dst as it was and an
	// error that wraps [ErrCorrupt]. It allocates no more than rawLen bytes and
	// a small constant, whatever src says.
	Decompress(dst, src []byte, rawLen int, d *Dict) ([]byte, error)
}

// Options configure an [Engine]. The zero value is the default.
type Options struct {
	Zstd        ZstdCoder // nil: pure Go
	MaxInFlight int       // calls that compress or decompress at one time; 0: GOMAXPROCS
}

// Engine compresses and decompresses values. It is safe for concurrent use:
// calls beyond MaxInFlight wait for their turn, so there are never more states
// than that in use, and those that lie idle are bounded by their bytes. A call
// runs on its caller's goroutine and never waits while it holds a turn.
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

// ZstdName says which zstd the engine uses: "go" or "libzstd".
func (e *Engine) ZstdName() string { return e.zstd.Name() }

// InFlight says how many calls compress or decompress right now, and how many
// may at one time. Calls that wait for their turn are not counted.
func (e *Engine) InFlight() (now, most int) { return len(e.turns), cap(e.turns) }

// MaxEncodedLen is the capacity in bytes, beyond its length, with which a
// destination never has to grow when rawLen bytes are compressed by id.
func MaxEncodedLen(id ID, rawLen int) int {
	switch id {
	case Raw:
		return rawLen
	case Snappy, S2:
		return max(s2.MaxEncodedLen(rawLen), 0)
	case LZ4:
		return rawLen + rawLen/255 + 16
	case Zstd: // of either library, magic number and dictionary ID included
		return rawLen + rawLen>>8 + 128
	default: // src in stored blocks of 64 KiB, and the wrapping
		return rawLen + rawLen>>12 + 64
	}
}

// Compress appends src compressed by s to dst, which must not overlap src. The
// dictionary must be the one that s names, nil when it names none. The result
// may be longer than src. On an error dst is returned as it was; the error
// wraps [ErrSetting], [ErrDictionary], [ErrTooLarge] or [ErrUnknownCodec].
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
		// A panic in a library is an error: compressing must not end the process. The state that was at work is not used again.
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
	default:
		return e.flate.compress(dst, src, s)
	}
}

// leave ends a piece's turn, which it is deferred for, and turns a panic in a library into an error,
// as Compress and Decompress do for whole values. kind is nil or what the error wraps.
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

// Decompress appends the rawLen bytes that src holds to dst, which must not
// overlap src. It allocates no more than rawLen bytes and a small constant;
// the caller has checked rawLen against its own limit. On an error dst is
// returned as it was, though the bytes behind its length may have changed;
// the error wraps [ErrCorrupt], [ErrDictionary] or [ErrUnknownCodec].
func (e *Engine) Decompress(dst, src []byte, id ID, rawLen int, d *Dict) (out []byte, err error) {
	switch {
	case !id.Known():
		return dst, fmt.Errorf("%w: %d", ErrUnknownCodec, uint8(id))
	case rawLen < 0:
		return dst, fmt.Errorf("%w: a length of %d", ErrCorrupt, rawLen)
	case d != nil && id != Zstd:
		return dst, fmt.Errorf("%w: %s takes none", ErrDictionary, id)
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
	default:
		return e.flate.decompress(dst, src, id, rawLen)
	}
}
