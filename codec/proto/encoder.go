package proto

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// Options configures encoders and decoders. The zero value is the default.
type Options struct {
	// Setting is the general codec: zstd, s2, minlz, lz4 or snappy. The zero value, and codecs not listed here,
	// mean zstd. The level is for messages that are not split into columns; 0 means one that suits the
	// message's length. Columns are compressed at level 1.
	Setting codec.Setting
	// Stored leaves columns uncompressed: for a caller that compresses all messages together, with a history,
	// which could not use data that is compressed already.
	Stored bool
	// Engine executes settings. nil: a pure Go engine for this encoder or decoder alone, by [NewEngine]. Several
	// encoders and decoders should share one.
	Engine *codec.Engine
}

// NewEngine returns an engine in pure Go that suits columns, for at most maxInFlight concurrent calls; 0 means
// GOMAXPROCS.
func NewEngine(maxInFlight int) *codec.Engine {
	return codec.New(codec.Options{Zstd: codec.NewLiteralGoZstd(), MaxInFlight: maxInFlight})
}

func (o *Options) setDefaults() {
	if o.Setting.Codec == codec.Raw || o.Setting.Codec > codec.Zstd {
		o.Setting.Codec = codec.Zstd
	}
	if o.Stored {
		o.Setting.Codec = codec.Raw
	}
	o.Setting.Dict = 0
	if o.Engine == nil {
		o.Engine = NewEngine(0)
	}
}

// Encoder compresses one message after another. It is not safe for concurrent use. Between messages it keeps only
// buffers, and for how many messages the comparison with the general codec can be skipped.
type Encoder struct {
	columnEncoder
	options  Options
	columns  []byte
	whole    []byte
	sections []int
	trust    trust
}

// NewEncoder returns an encoder. It holds some hundred KiB of memory, and buffers about as long as a message,
// which it releases after messages of more than 4 MiB.
func NewEncoder(o Options) *Encoder {
	o.setDefaults()
	return &Encoder{options: o}
}

// Limits of the use of columns.
const (
	minColumnsBytes = 256
	keptBytes       = 4 << 20 // length of a message up to which buffers are kept
)

// Append appends src compressed to dst, which must not overlap src. It cannot fail.
func (e *Encoder) Append(dst, src []byte) []byte {
	if len(src) > MaxBytes {
		return e.appendStream(dst, src)
	}
	if len(src) < minColumnsBytes {
		return e.appendPlain(dst, src)
	}
	defer e.shrink(len(src))
	out, ok := e.appendColumns(dst, src)
	switch {
	case !ok:
		return e.appendPlain(dst, src)
	case e.options.Stored || e.isShorter(src, len(out)-len(dst)):
		return out
	}
	return append(out[:len(dst)], e.whole...)
}

// appendColumns returns false if the message can't be split into columns.
func (e *Encoder) appendColumns(dst, src []byte) ([]byte, bool) {
	if !e.run(src) {
		return dst, false
	}
	sections := e.assemble()
	if len(e.columns) > len(src) {
		return dst, false
	}
	h := header{form: formColumns, codec: e.options.Setting.Codec, raw: len(src), sum: crc32.Checksum(src, castagnoli), columns: len(e.columns)}
	dst = h.append(dst)
	if e.options.Stored {
		return appendStored(dst, e.columns), true
	}
	from := 0
	for _, to := range sections {
		dst = e.appendSection(dst, e.columns[from:to])
		from = to
	}
	return dst, true
}

func (e *Encoder) shrink(n int) {
	if n > keptBytes {
		e.columnEncoder, e.columns, e.whole = columnEncoder{}, nil, nil
	}
}

// appendPlain compresses a message without splitting it.
func (e *Encoder) appendPlain(dst, src []byte) []byte {
	h := header{form: formPlain, codec: e.options.Setting.Codec, raw: len(src)}
	start := len(dst)
	s := codec.Setting{Codec: h.codec, Level: e.level(len(src))}
	out, err := e.options.Engine.Compress(h.append(dst), src, s, nil)
	if err == nil && len(out)-start < len(src)+3 {
		return out
	}
	h.codec = codec.Raw
	return append(h.append(out[:start]), src...)
}

// Default levels of zstd, as in package grpccodec for messages.
const (
	longMessage = 128 << 10
	smallLevel  = 1
	longLevel   = 3
	libLevel    = 2 // for libzstd
)

// level returns the level for a message of n bytes that is not split.
func (e *Encoder) level(n int) int {
	s := e.options.Setting
	switch {
	case s.Codec != codec.Zstd || s.Level != 0:
		return s.Level
	case e.options.Engine.ZstdName() != "go":
		return libLevel
	case n < longMessage:
		return smallLevel
	}
	return longLevel
}

// appendStream compresses a message that is too long for the other forms.
func (e *Encoder) appendStream(dst, src []byte) []byte {
	start := len(dst)
	dst = append(append(dst, FormStream), zstdframe.Magic...)
	if e.options.Stored {
		return zstdRaw(dst, src)
	}
	out, err := e.options.Engine.Compress(dst, src, codec.Setting{Codec: codec.Zstd, Level: longLevel}, nil)
	if err != nil {
		out = zstdRaw(dst[:start+1+len(zstdframe.Magic)], src)
	}
	return out
}

// zstdRaw appends a zstd frame without its magic number that holds src uncompressed.
func zstdRaw(dst, src []byte) []byte {
	const windowLog, maxBlock = 17, 128 << 10
	dst = append(dst, 0, (windowLog-10)<<3)
	for {
		block := src[:min(len(src), maxBlock)]
		src = src[len(block):]
		h := uint32(len(block)) << 3
		if len(src) == 0 {
			h |= 1
		}
		dst = append(append(dst, byte(h), byte(h>>8), byte(h>>16)), block...)
		if len(src) == 0 {
			return dst
		}
	}
}

// appendSection compresses a part of the columns, if that makes it shorter.
func (e *Encoder) appendSection(dst, part []byte) []byte {
	start := len(dst)
	s := codec.Setting{Codec: e.options.Setting.Codec, Level: 1}
	// The engine grows a buffer by no more than needed, which would copy all previous sections for each
	// further one.
	dst = slices.Grow(dst, codec.MaxEncodedLen(s.Codec, len(part))+2*binary.MaxVarintLen64)
	if s.Codec.MaxLevel() == 0 {
		s.Level = 0
	}
	dst = binary.AppendUvarint(dst, uint64(len(part))<<1|1)
	// The packed length is known only afterwards. Its field is as long as that of the part's length.
	at := len(dst)
	room := pbwire.UvarintLen(uint64(len(part)))
	out, err := e.options.Engine.Compress(append(dst, make([]byte, room)...), part, s, nil)
	n := len(out) - at - room
	if err != nil || n >= len(part) {
		return appendStored(out[:start], part)
	}
	need := binary.PutUvarint(out[at:at+room], uint64(n))
	if need < room {
		out = append(out[:at+need], out[at+room:]...)
	}
	return out
}

// appendStored appends an uncompressed section.
func appendStored(dst, part []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))<<1), part...)
}

// Sections end between columns of different kinds, and around long columns. Both limits grow with the
// message, as each section takes time.
const (
	shortSection = 256
	longColumn   = 1024
	perSection   = 100 // a section is at least this fraction of all columns
)

// kindOf groups columns with the same kind of bytes.
func kindOf(col int) int { return max(col, colKinds) }

// assemble concatenates e.columns and returns the ends of their sections.
func (e *Encoder) assemble() (sections []int) {
	e.sections = e.sections[:0]
	e.sortText()
	out := e.appendLengths(e.columns[:0])
	out = append(out, e.defs...)
	from, last, lastKind := 0, 0, kindOf(0)
	short := max(shortSection, e.columnBytes()/perSection)
	long := max(longColumn, 2*short)
	for col := range columns {
		for i := range e.nodes {
			c := e.cols[i][col]
			if len(c) == 0 {
				continue
			}
			enough := short
			if col == colNoise && lastKind != colNoise {
				enough = 1
			}
			if len(out)-from >= enough && (last >= long || len(c) >= long || kindOf(col) != lastKind) {
				e.sections = append(e.sections, len(out))
				from = len(out)
			}
			out = append(out, c...)
			last, lastKind = len(c), kindOf(col)
		}
	}
	e.columns = out
	e.sections = append(e.sections, len(out))
	return e.sections
}

// columnBytes returns the length of all columns.
func (e *Encoder) columnBytes() (n int) {
	for i := range e.nodes {
		for _, c := range e.cols[i] {
			n += len(c)
		}
	}
	return n
}

func (e *Encoder) appendLengths(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(e.nodes)))
	out = binary.AppendUvarint(out, uint64(len(e.defs)))
	for i := range e.nodes {
		at, mask := len(out), byte(0)
		out = append(out, 0)
		for col, c := range e.cols[i] {
			if len(c) > 0 {
				mask |= 1 << col
				out = binary.AppendUvarint(out, uint64(len(c)))
			}
		}
		out[at] = mask
	}
	return out
}

// sortText separates text that no entropy coder makes shorter from other text.
func (e *Encoder) sortText() {
	for i := range e.nodes {
		if c := &e.cols[i]; e.nodes[i].wire == pbwire.BytesType && isNoise(c[colText]) {
			c[colText], c[colNoise] = c[colNoise], c[colText]
		}
	}
}

// isNoise reports whether all bytes are about equally frequent, judging by a sample.
func isNoise(b []byte) bool {
	const sample, least = 2048, 64
	if len(b) < least {
		return false
	}
	b = b[:min(len(b), sample)]
	var counts [256]uint16
	for _, c := range b {
		counts[c]++
	}
	pairs := 0
	for _, n := range counts {
		pairs += int(n) * int(n)
	}
	n := len(b)
	return pairs < n+n*n*3/2/256
}
