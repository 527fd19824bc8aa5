package grpccodec

import (
	"fmt"
	"io"
	"math"

	"google.golang.org/grpc/encoding"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec/internal/frame"
)

// compressor implements encoding.Compressor.
type compressor struct {
	set      *Set
	name     string
	setting  codec.Setting
	encoders kinds
	decoders *idle[frame.Decoder]
}

// New returns a compressor with states of its own, without registering it. Use [Set.Compressor] for several
// that share their limit. name is an encoding, with or without a level; the error wraps [ErrUnknownName].
func New(name string, o Options) (encoding.Compressor, error) {
	c, err := NewSet(o).compressor(name)
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		c.name = o.Name
	}
	return c, nil
}

// Compressor returns a compressor for an encoding, with or without a level: "zstd" or "zstd-1". In both cases
// its name is the encoding's. The error wraps [ErrUnknownName].
func (s *Set) Compressor(name string) (encoding.Compressor, error) {
	c, err := s.compressor(name)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Set) compressor(name string) (*compressor, error) {
	setting, err := parse(name)
	if err != nil {
		return nil, err
	}
	return &compressor{
		set: s, name: setting.Codec.String(), setting: setting,
		encoders: s.kindsOf(setting), decoders: s.decodersOf(setting.Codec),
	}, nil
}

// Name implements encoding.Compressor.
func (c *compressor) Name() string { return c.name }

// Compress implements encoding.Compressor.
func (c *compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	return &Writer{set: c.set, kinds: c.encoders, setting: c.setting, w: w}, nil
}

// Decompress implements encoding.Compressor.
func (c *compressor) Decompress(r io.Reader) (io.Reader, error) {
	return &Reader{set: c.set, pool: c.decoders, id: c.setting.Codec, r: r, left: c.set.limit()}, nil
}

func (s *Set) limit() int64 {
	if s.options.MaxDecodedBytes > 0 {
		return s.options.MaxDecodedBytes
	}
	return math.MaxInt64
}

// NewWriter returns a writer for an encoding, with or without a level. It needs a Reset before it is used. The
// error wraps [ErrUnknownName].
func (s *Set) NewWriter(name string) (*Writer, error) {
	setting, err := parse(name)
	if err != nil {
		return nil, err
	}
	return &Writer{set: s, kinds: s.kindsOf(setting), setting: setting, err: ErrClosed}, nil
}

// NewReader returns a reader for an encoding, whose level does not matter. It needs a Reset before it is used.
// The error wraps [ErrUnknownName].
func (s *Set) NewReader(name string) (*Reader, error) {
	setting, err := parse(name)
	if err != nil {
		return nil, err
	}
	return &Reader{set: s, pool: s.decodersOf(setting.Codec), id: setting.Codec, left: s.limit()}, nil
}

// Register registers compressors with grpc-go, which then uses them instead of others of the same name. A
// name may have a level: "zstd-3" writes zstd at level 3 under the name "zstd". All share one limit of their
// states. Like grpc-go's own registration it must be called from an init function, or before any call is made
// or served. On an error nothing is registered; the error wraps [ErrUnknownName], or says that two names are
// of the same encoding.
func Register(names ...string) error { return NewSet(Options{}).Register(names...) }

// Register is like the function Register, with the set's options and states.
func (s *Set) Register(names ...string) error {
	compressors := make(map[string]*compressor, len(names))
	for _, name := range names {
		c, err := s.compressor(name)
		if err != nil {
			return err
		}
		if other := compressors[c.name]; other != nil {
			return fmt.Errorf("grpccodec: %s and %s would have the same name", other.setting, c.setting)
		}
		compressors[c.name] = c
	}
	for _, c := range compressors {
		encoding.RegisterCompressor(c)
	}
	return nil
}
