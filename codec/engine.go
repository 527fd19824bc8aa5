package codec

import (
	"fmt"
	"runtime"
)

// ZstdCoder is an implementation of zstd: pure Go here, or libzstd. Both
// write the same format and read each other's frames. Implementations are
// safe for concurrent use.
type ZstdCoder interface {
	// Name is for logs and metrics: "go" or "libzstd".
	Name() string
	// Compress appends one frame without its magic number. Level is 1 to 22, or
	// 0 for the default of 3; d may be nil.
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

// Engine compresses and decompresses values. It is safe for concurrent use.
type Engine struct {
	zstd  ZstdCoder
	slots chan struct{} // one token a call in flight
}

// New returns an engine.
func New(o Options) *Engine {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = runtime.GOMAXPROCS(0)
	}
	if o.Zstd == nil {
		o.Zstd = NewGoZstd()
	}
	return &Engine{zstd: o.Zstd, slots: make(chan struct{}, o.MaxInFlight)}
}

// Compress appends src compressed by s to dst. The dictionary must be the one
// s names, nil when it names none.
func (e *Engine) Compress(dst, src []byte, s Setting, d *Dict) ([]byte, error) {
	return dst, fmt.Errorf("%w: %s", ErrUnknownCodec, s.Codec)
}

// Decompress appends the rawLen bytes that src holds to dst.
func (e *Engine) Decompress(dst, src []byte, id ID, rawLen int, d *Dict) ([]byte, error) {
	return dst, fmt.Errorf("%w: %s", ErrUnknownCodec, id)
}
