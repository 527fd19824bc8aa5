package frame

import (
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"

	"github.com/cinch-layer/cinch/codec"
)

// The framing format of snappy, which s2 shares except for its identifier and its larger blocks:
//
//	stream: identifier chunk…
//	chunk:  type(1) length(3, little endian) checksum(4, little endian) block
//
// The length includes checksum and block; the checksum is a masked CRC-32C of the uncompressed block. The
// library's writer would allocate for every block, and a megabyte in advance even for the smallest message.
const (
	snappyIdentifier = "\xff\x06\x00\x00sNaPpY"
	s2Identifier     = "\xff\x06\x00\x00S2sTwO"

	compressedChunk = 0x00
	plainChunk      = 0x01
	chunkHeader     = 8
)

const (
	snappyBlockBytes = 64 << 10 // the format's maximum
	// A Write of at least directBytes is compressed without copying, including its last block. Smaller ones
	// are collected first, so that they share a block.
	directBytes = 128 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkEncoder writes snappy and s2.
type chunkEncoder struct {
	identifier string
	blockBytes int
	encode     func(dst, src []byte) []byte

	out     sink
	begun   bool
	pending []byte // less than a block
	chunk   []byte // buffer for making chunks
}

func newChunkEncoder(s codec.Setting) *chunkEncoder {
	if s.Codec == codec.Snappy {
		encode := [...]func(_, _ []byte) []byte{s2.EncodeSnappy, s2.EncodeSnappy, s2.EncodeSnappyBetter, s2.EncodeSnappyBest}
		return &chunkEncoder{identifier: snappyIdentifier, blockBytes: snappyBlockBytes, encode: encode[s.Level]}
	}
	encode := [...]func(_, _ []byte) []byte{s2.Encode, s2.Encode, s2.EncodeBetter, s2.EncodeBest}
	return &chunkEncoder{identifier: s2Identifier, blockBytes: blockBytes, encode: encode[s.Level]}
}

func (e *chunkEncoder) Start(w io.Writer) {
	e.out = sink{w: w, buf: e.out.buf[:0]}
	e.begun = false
	e.pending = e.pending[:0]
}

func (e *chunkEncoder) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && e.out.err == nil {
		if len(e.pending) == 0 && (n >= directBytes || len(p) >= e.blockBytes) {
			block := p[:min(len(p), e.blockBytes)]
			e.writeBlock(block)
			p = p[len(block):]
			continue
		}
		room := min(len(p), e.blockBytes-len(e.pending))
		e.pending = append(e.pending, p[:room]...)
		p = p[room:]
		if len(e.pending) == e.blockBytes {
			e.flush()
		}
	}
	return n - len(p), e.out.err
}

func (e *chunkEncoder) Close() error {
	e.flush()
	e.begin()
	e.out.flush()
	e.out.w = nil
	return e.out.err
}

func (e *chunkEncoder) flush() {
	if len(e.pending) > 0 {
		e.writeBlock(e.pending)
		e.pending = e.pending[:0]
	}
}

func (e *chunkEncoder) begin() {
	if !e.begun {
		e.begun = true
		e.out.Write([]byte(e.identifier))
	}
}

// writeBlock writes a chunk. A block that does not shrink is stored uncompressed. The sink keeps the first
// error.
func (e *chunkEncoder) writeBlock(block []byte) {
	e.begin()
	room := s2.MaxEncodedLen(len(block))
	if cap(e.chunk) < chunkHeader+room {
		e.chunk = make([]byte, chunkHeader+room)
	}
	e.chunk = e.chunk[:chunkHeader+room]
	packed := e.encode(e.chunk[chunkHeader:], block)
	header := e.chunk[:chunkHeader]
	if len(packed) >= len(block) {
		putChunkHeader(header, plainChunk, block, len(block))
		e.out.Write(header)
		e.out.Write(block)
		return
	}
	putChunkHeader(header, compressedChunk, block, len(packed))
	e.out.Write(e.chunk[:chunkHeader+len(packed)])
}

func putChunkHeader(header []byte, kind byte, block []byte, size int) {
	sum := crc32.Checksum(block, castagnoli)
	sum = (sum>>15 | sum<<17) + 0xa282ead8
	size += 4
	copy(header, []byte{
		kind, byte(size), byte(size >> 8), byte(size >> 16),
		byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24),
	})
}
