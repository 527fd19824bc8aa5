package clientformat

import (
	"bytes"
	"encoding/binary"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
)

// HeadBytes is the number of a value's first bytes that [Expect] needs.
const HeadBytes = 32

// Expect tells a reader, before a value has arrived completely, how much memory [OpenAny] may need for it. It
// reports whether a value of n bytes that begins with head may be in one of the formats. most is the largest
// length in bytes that its content may have: the length that its header declares, or limit if that declares
// none. Formats whose header declares more than limit are left out.
func Expect(formats []Format, head []byte, n, limit int) (most int, may bool) {
	for _, f := range formats {
		if !f.mayStartWith(head, n) {
			continue
		}
		declared := f.declaredLen(head)
		switch {
		case declared < 0:
			most, may = limit, true
		case declared <= int64(limit):
			most, may = max(most, int(declared)), true
		}
	}
	return most, may
}

// mayStartWith reports whether a value of n bytes that begins with head may have the format: like matchesHeader, but
// before the whole value is known. For formats without a header it reports whether their values can begin that way.
func (f Format) mayStartWith(head []byte, n int) bool {
	switch f {
	case XZ:
		return n >= xzHeaders+xzFooter && bytes.HasPrefix(head, xzMagic)
	case Rails71:
		return n > rails71Fixed && bytes.HasPrefix(head, rails71Magic)
	case PHPRedisLZ4:
		return len(head) >= phpHeader && head[0] == crc8(head[1:phpHeader]) && f.declaredLen(head) <= lz4MostRatio*int64(n-phpHeader)
	case RedissonLZ4:
		return len(head) > redissonHeader && f.declaredLen(head) <= lz4MostRatio*int64(n-redissonHeader) && beginsLZ4(head[redissonHeader:])
	case Snappy:
		declared := f.declaredLen(head)
		return declared >= 0 && declared <= snappyMostRatio*int64(n) && beginsSnappy(head)
	case LZF:
		return len(head) > 0 && head[0] < lzfLiterals
	case Deflate:
		return len(head) > 0 && head[0]>>1&3 != 3
	}
	return f.matchesHeader(head)
}

// beginsLZ4 and beginsSnappy report whether a block begins with literal bytes, as it must, since there is
// nothing to copy yet.
func beginsLZ4(block []byte) bool { return block[0] == 0 || block[0]>>4 > 0 }

func beginsSnappy(block []byte) bool {
	_, n := binary.Uvarint(block)
	return n > 0 && (n >= len(block) || block[n]&3 == 0)
}

// declaredLen returns the length of the content in a value's header, -1 if there is none.
func (f Format) declaredLen(head []byte) int64 {
	switch {
	case f == GlideLZ4 && len(head) >= glideHeader+lz4SizeBytes:
		return int64(binary.LittleEndian.Uint32(head[glideHeader:]))
	case f == PHPRedisLZ4 && len(head) >= phpHeader:
		return int64(binary.LittleEndian.Uint32(head[1:]))
	case (f == RedissonLZ4 || f == RedissonZstd) && len(head) >= redissonHeader:
		return int64(binary.BigEndian.Uint32(head))
	case f == Snappy:
		if n, err := snappy.DecodedLen(head); err == nil {
			return int64(n)
		}
	case f == Zstd:
		return frameDeclaredLen(head)
	case f == GlideZstd && len(head) > glideHeader:
		return frameDeclaredLen(head[glideHeader:])
	}
	return -1
}

func frameDeclaredLen(frame []byte) int64 {
	var h zstd.Header
	if h.Decode(frame) != nil || !h.HasFCS || h.FrameContentSize > 1<<62 {
		return -1
	}
	return int64(h.FrameContentSize)
}

// MaxContentLen returns the length in bytes up to which a gateway or packer opens the content of a value of n
// bytes: 32*n or 32 KiB, whichever is larger, but never more than most.
func MaxContentLen(n, most int) int {
	if n > most/32 { // 32*n could overflow
		return most
	}
	return min(max(32<<10, 32*n), most)
}
