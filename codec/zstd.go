package codec

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// defaultZstdLevel is the default level of zstd itself.
const defaultZstdLevel = 3

// DecompressSlack is the capacity in bytes beyond rawLen that saves the pure Go zstd decoder an allocation
// for values above 128 KiB: it detects that a hostile block overruns rawLen only after the block.
const DecompressSlack = zstdframe.MaxBlock

// goZstdIdleBytes limits the memory of idle encoders and decoders, for each of the two kinds. It is
// sufficient for two encoders of the largest kind.
const goZstdIdleBytes = 80 << 20

// GoZstd is zstd in pure Go. Its four levels correspond to zstd's 22: 1 and 2, 3 to 5, 6 to 9, and above;
// with a dictionary the last is the same as the third. Idle encoders and decoders are kept up to a limit of
// bytes; the engine limits those in use.
//
// Idle states belong to a [Dict], not to its content: a dictionary that is loaded twice is prepared twice.
type GoZstd struct {
	encoders idle[encoderKey, *zstd.Encoder]
	decoders idle[*Dict, *goDecoder]
	literals bool // literals are coded at all levels
}

type encoderKey struct {
	level zstd.EncoderLevel
	dict  *Dict
}

// goDecoder is a decoder with a buffer for frames with their restored header.
type goDecoder struct {
	zstd  *zstd.Decoder
	frame []byte
}

// NewGoZstd returns zstd in pure Go.
func NewGoZstd() *GoZstd {
	z := &GoZstd{}
	z.encoders.maxBytes = goZstdIdleBytes
	z.decoders.maxBytes = goZstdIdleBytes
	return z
}

// NewLiteralGoZstd returns zstd in pure Go that entropy-codes literals even if the fastest level finds no
// matches, as in columns of numbers and names.
func NewLiteralGoZstd() *GoZstd {
	z := NewGoZstd()
	z.literals = true
	return z
}

// Name returns "go".
func (z *GoZstd) Name() string { return "go" }

// Compress implements [ZstdCoder].
func (z *GoZstd) Compress(dst, src []byte, level int, d *Dict) ([]byte, error) {
	if len(src) == 0 {
		return zstdframe.AppendEmpty(dst), nil
	}
	key := encoderKey{goLevel(zstdLevel(level), d), d}
	enc, ok := z.encoders.take(key)
	if !ok {
		var err error
		if enc, err = newGoEncoder(key, z.literals); err != nil {
			return dst, fmt.Errorf("%w: %w", ErrDictionary, err)
		}
	}
	start := len(dst)
	out := enc.EncodeAll(src, reserve(dst, MaxEncodedLen(Zstd, len(src))))
	z.encoders.put(key, enc, goEncoderBytes(key))
	return zstdframe.Store(out, start, len(src))
}

// goLevel avoids the best encoder if there is a dictionary: for every value it would copy 34 MiB of tables,
// which takes 10 ms and more.
func goLevel(level int, d *Dict) zstd.EncoderLevel {
	best := zstd.SpeedBestCompression
	if d != nil {
		best = zstd.SpeedBetterCompression
	}
	return min(zstd.EncoderLevelFromZstd(level), best)
}

// goWindow returns the encoders' window in bytes. It is the size of an encoder's history when a value has
// more than one block.
func goWindow(level zstd.EncoderLevel) int {
	switch level {
	case zstd.SpeedFastest, zstd.SpeedDefault:
		return 1 << 20
	case zstd.SpeedBetterCompression:
		return 2 << 20
	default:
		return 4 << 20
	}
}

// goEncoderBytes estimates the memory that an encoder holds: its tables, twice with a dictionary, and its
// history.
func goEncoderBytes(key encoderKey) int {
	tables := map[zstd.EncoderLevel]int{
		zstd.SpeedFastest:           256 << 10,
		zstd.SpeedDefault:           1280 << 10,
		zstd.SpeedBetterCompression: 4 << 20,
		zstd.SpeedBestCompression:   34 << 20,
	}[key.level]
	if key.dict != nil {
		tables *= 2
	}
	return tables + goWindow(key.level) + 256<<10
}

func newGoEncoder(key encoderKey, literals bool) (*zstd.Encoder, error) {
	options := []zstd.EOption{
		zstd.WithEncoderLevel(key.level),
		zstd.WithWindowSize(goWindow(key.level)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false),
	}
	if literals {
		options = append(options, zstd.WithAllLitEntropyCompression(true))
	}
	switch d := key.dict; {
	case d == nil:
	case d.Trained():
		options = append(options, zstd.WithEncoderDict(d.content))
	default:
		options = append(options, zstd.WithEncoderDictRaw(d.frameID(), d.content))
	}
	return zstd.NewWriter(nil, options...)
}

// Decompress implements [ZstdCoder].
func (z *GoZstd) Decompress(dst, src []byte, rawLen int, d *Dict) ([]byte, error) {
	f, err := parseZstd(src, rawLen, d)
	if err != nil || rawLen == 0 {
		return dst, err
	}
	dec, ok := z.decoders.take(d)
	if !ok {
		if dec, err = newGoDecoder(d); err != nil {
			return dst, fmt.Errorf("%w: %w", ErrDictionary, err)
		}
	}
	out, err := dec.decompress(dst, f, rawLen, d)
	z.putDecoder(d, dec)
	return out, err
}

// parseZstd checks a payload before it is passed to any library.
func parseZstd(src []byte, rawLen int, d *Dict) (zstdframe.Frame, error) {
	f, err := zstdframe.Parse(src, rawLen)
	if err != nil {
		return f, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if f.DictID != 0 && !d.Matches(f.DictID) {
		return f, fmt.Errorf("%w: zstd frame wants dictionary %d", ErrCorrupt, f.DictID)
	}
	return f, nil
}

// goDecoderBytes is the maximum memory of a decoder without its dictionary: literals, sequences, tables and
// the frame's buffer.
const goDecoderBytes = 3 << 20

// maxKeptFrame limits the size in bytes of the buffer that a decoder keeps for frames.
const maxKeptFrame = 512 << 10

func newGoDecoder(d *Dict) (*goDecoder, error) {
	options := []zstd.DOption{
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(1 << 32), // the window costs nothing when decoding in one piece
	}
	switch {
	case d == nil:
	case d.Trained():
		options = append(options, zstd.WithDecoderDicts(d.content))
	default:
		options = append(options, zstd.WithDecoderDictRaw(d.frameID(), d.content))
	}
	dec, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, err
	}
	return &goDecoder{zstd: dec}, nil
}

func (z *GoZstd) putDecoder(d *Dict, dec *goDecoder) {
	dec.zstd.DecodeAll(nil, nil) // makes it drop the caller's buffer
	bytes := goDecoderBytes
	if d != nil {
		bytes += len(d.content)
	}
	z.decoders.put(d, dec, bytes)
}

// decompress adds a header to the frame that declares rawLen and the smallest sufficient window, so that the
// library stops at the first byte beyond.
func (dec *goDecoder) decompress(dst []byte, f zstdframe.Frame, rawLen int, d *Dict) ([]byte, error) {
	h := zstdframe.Header{WindowLog: zstdframe.WindowLog(rawLen + d.size()), DictID: d.frameID(), ContentLen: rawLen}
	frame := f.AppendTo(dec.frame[:0], h)
	if cap(frame) <= maxKeptFrame {
		dec.frame = frame
	}
	start, room := len(dst), rawLen
	if f.Blocks > 1 {
		room += DecompressSlack
	}
	dst = reserve(dst, room)
	out, err := dec.zstd.DecodeAll(frame, dst[start:start:start+room])
	if err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(out) != rawLen {
		return dst[:start], wrongLen(len(out), rawLen)
	}
	return dst[:start+rawLen], nil
}
