package grpccodec

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec/internal/frame"
)

// Options configures a [Set] or a compressor. The zero value is the default.
type Options struct {
	// Name replaces the encoding's own name towards peers, such as "zstd-9" to have two levels in one
	// process. Peers must know it too. It is for [New] only.
	Name string
	// MaxInFlight limits the encoders in use at one time, and the decoders: further calls wait. 0:
	// GOMAXPROCS.
	MaxInFlight int
	// MaxDecodedBytes limits the length of a message in a [Reader]; longer ones are [ErrTooLarge]. 0: no
	// limit here. grpc-go has its own limit, which it reports with the status that clients expect; set this
	// one where nothing else limits messages.
	MaxDecodedBytes int64
	// MaxWindowBytes limits the window of a zstd frame that is read; a larger one is [ErrCorrupt]. 0: 8 MiB,
	// which every implementation must support.
	MaxWindowBytes int
	// Zstd is an implementation for whole messages, such as libzstd. It is used by AppendCompress, by
	// AppendDecompress if a frame states its length, and for cinch-proto; other readers and writers are pure
	// Go. nil: pure Go.
	Zstd codec.ZstdCoder
}

const defaultMaxWindowBytes = 8 << 20

// Set holds the states that compressors share, and limits them. It is safe for concurrent use.
type Set struct {
	options   Options
	encoding  *turns
	decoding  *turns
	maxWindow int
	buffers   *idle[[]byte]        // for encoders of whole messages
	engine    func() *codec.Engine // for columns

	mu       sync.Mutex
	encoders map[codec.Setting]*idle[frame.Encoder]
	decoders map[codec.ID]*idle[frame.Decoder]
}

// NewSet returns a set without states.
func NewSet(o Options) *Set {
	n := o.MaxInFlight
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return &Set{
		engine:    sync.OnceValue(func() *codec.Engine { return newEngine(o.Zstd, n) }),
		options:   o,
		encoding:  newTurns(n),
		decoding:  newTurns(n),
		maxWindow: cmp.Or(o.MaxWindowBytes, defaultMaxWindowBytes),
		buffers:   newIdle[[]byte](n),
		encoders:  make(map[codec.Setting]*idle[frame.Encoder]),
		decoders:  make(map[codec.ID]*idle[frame.Decoder]),
	}
}

// InFlight returns the number of encoders and decoders in use.
func (s *Set) InFlight() (encoders, decoders int) {
	return s.encoding.inUse(), s.decoding.inUse()
}

// kind is one kind of encoder, with its idle states.
type kind struct {
	setting codec.Setting
	pool    *idle[frame.Encoder]
}

// kinds holds the encoders of a setting, for small messages and for large ones.
type kinds struct{ small, large kind }

// largeBytes is the minimum length of the first piece of a large message. In grpc-go that is the whole
// message.
const largeBytes = 128 << 10

func (k *kinds) of(n int) *kind {
	if n >= largeBytes {
		return &k.large
	}
	return &k.small
}

// kindsOf returns the encoders of a setting. They are the same for all sizes, except for zstd without a
// level: there level 3 makes large messages smaller than level 1 at a little more CPU, while small ones would
// pay for its larger tables without a gain.
func (s *Set) kindsOf(setting codec.Setting) kinds {
	small, large := setting, setting
	if setting == (codec.Setting{Codec: codec.Zstd}) {
		small.Level, large.Level = 1, 3
	}
	return kinds{small: s.kindOf(small), large: s.kindOf(large)}
}

func (s *Set) kindOf(setting codec.Setting) kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.encoders[setting]
	if p == nil {
		p = newIdle[frame.Encoder](cap(s.encoding.free))
		s.encoders[setting] = p
	}
	return kind{setting, p}
}

func (s *Set) decodersOf(id codec.ID) *idle[frame.Decoder] {
	if id == codec.Snappy {
		id = codec.S2 // one decoder reads both
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.decoders[id]
	if p == nil {
		p = newIdle[frame.Decoder](cap(s.decoding.free))
		s.decoders[id] = p
	}
	return p
}
