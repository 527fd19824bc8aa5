package envelope

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/cinch-layer/cinch/codec"
)

// An envelope, as described in docs/FORMAT.md:
//
//	offset  0    1    2    3         4
//	      +----+----+----+---------+-------+----------+----------------+----------------+-----------+- - - - -+
//	      | C1 | DD | DC | ver cod | flags | raw len  | CRC-32 LE, or  | dictionary no. | extension | payload |
//	      |              | hi  lo  |       | uvarint  | with a no. tag | big endian     | words     |         |
//	      +----+----+----+---------+-------+----------+----------------+----------------+-----------+- - - - -+
//	bytes        3            1        1      1 to 5       4 or 8           0 or 4      4 x (0..15)  to the end
const (
	// Magic begins every envelope. Its first byte is never valid in UTF-8 and unused in MessagePack;
	// docs/FORMAT.md has the reasons.
	Magic = "\xC1\xDD\xDC"

	// Version is the only version so far.
	Version = 1

	// MaxHeaderLen is the length in bytes of the longest header. ParseHeader never needs more bytes from the
	// start of a stored value.
	MaxHeaderLen = fixedLen + maxUvarintLen + TagLen + dictLen + maxExtWords*extWordLen

	// TagLen is the length in bytes of the tag, which replaces the checksum if there is a dictionary.
	TagLen = codec.TagLen

	// MaxHeaderRawLen is the largest raw length, in bytes, that a header can declare.
	MaxHeaderRawLen = 1<<(7*maxUvarintLen) - 1
)

const (
	fixedLen      = len(Magic) + 2
	maxUvarintLen = 5
	checksumLen   = 4
	dictLen       = 4
	extWordLen    = 4
	maxExtWords   = 15

	flagDict     = 0x80
	flagForeign  = 0x40
	flagReserved = 0x30
	maskExtWords = 0x0F

	wordForeign = 1 // type of the extension word for flagForeign
)

// Header is an envelope's header, which precedes the payload.
type Header struct {
	Version  uint8
	Codec    codec.ID // may be unknown to this version (8 to 15)
	HasDict  bool
	Dict     uint32       // number of the dictionary, 0 if there is none
	RawLen   int          // length of the value or, for a foreign one, of its content, in bytes
	Checksum uint32       // CRC-32 (IEEE) of these bytes and Foreign's word, if there is no dictionary
	Tag      [TagLen]byte // codec.Dict.Tag of header and payload, if there is a dictionary
	Foreign  Foreign      // how another library had compressed the value; zero: none had
	Ext      []byte       // other extension words, 4 bytes each, at most 15 with Foreign's; aliases the input
	Len      int          // length of the header, in bytes; set by ParseHeader, ignored by Append
}

// IsSealed reports whether b begins with the magic. Then it is an envelope, perhaps a damaged one; otherwise
// it is a plain value.
func IsSealed(b []byte) bool {
	return len(b) >= len(Magic) && string(b[:len(Magic)]) == Magic
}

// IsForeign reports whether the envelope holds the content of a value that another library had compressed.
func (h Header) IsForeign() bool { return h.Foreign.Format != 0 }

// checksum returns the checksum of a value or content. The two can't be confused, since that of a content
// includes its extension word.
func checksum(raw []byte, of Foreign) uint32 {
	sum := crc32.ChecksumIEEE(raw)
	if of.Format != 0 {
		sum = crc32.Update(sum, crc32.IEEETable, of.word())
	}
	return sum
}

// ParseHeader parses the header at the start of b, which needs to hold no more than the first MaxHeaderLen
// bytes of the envelope. It does not look at the payload and does not allocate; Ext aliases b. Without the
// magic it returns ErrNotSealed. All other errors wrap ErrDamaged: ErrTruncated, ErrVersion, ErrReserved,
// ErrHeader. On 32-bit platforms a raw length above 2^31-1 is ErrHeader too.
func ParseHeader(b []byte) (Header, error) {
	if !IsSealed(b) {
		return Header{}, ErrNotSealed
	}
	if len(b) < fixedLen {
		return Header{}, ErrTruncated
	}
	h := Header{Version: b[3] >> 4, Codec: codec.ID(b[3] & 0x0F)}
	flags := b[4]
	if h.Version != Version {
		return Header{}, ErrVersion
	}
	if flags&flagReserved != 0 {
		return Header{}, ErrReserved
	}

	// The raw length: a uvarint of at most maxUvarintLen bytes in its shortest form.
	at, rawLen := fixedLen, uint64(0)
	for i := 0; ; i++ {
		if i == maxUvarintLen {
			return Header{}, ErrHeader
		}
		if at >= len(b) {
			return Header{}, ErrTruncated
		}
		c := b[at]
		at++
		rawLen |= uint64(c&0x7F) << (7 * i)
		if c < 0x80 {
			if i > 0 && c == 0 || rawLen > math.MaxInt {
				return Header{}, ErrHeader
			}
			break
		}
	}
	h.RawLen = int(rawLen)

	if flags&flagDict != 0 {
		if len(b) < at+TagLen+dictLen {
			return Header{}, ErrTruncated
		}
		at += copy(h.Tag[:], b[at:])
		h.HasDict, h.Dict = true, binary.BigEndian.Uint32(b[at:])
		at += dictLen
		if h.Dict == 0 {
			return Header{}, ErrHeader
		}
		if h.Codec != codec.Zstd && h.Codec.Known() { // of the known codecs only zstd supports them
			return Header{}, ErrReserved
		}
	} else {
		if len(b) < at+checksumLen {
			return Header{}, ErrTruncated
		}
		h.Checksum = binary.LittleEndian.Uint32(b[at:])
		at += checksumLen
	}
	if n := int(flags&maskExtWords) * extWordLen; n > 0 {
		if len(b) < at+n {
			return Header{}, ErrTruncated
		}
		h.Ext = b[at : at+n : at+n]
		at += n
	}
	h.Len = at
	if flags&flagForeign != 0 {
		return h.takeForeign()
	}
	return h, nil
}

// takeForeign moves the word of flagForeign, which must be the first extension word, from Ext to Foreign.
func (h Header) takeForeign() (Header, error) {
	if len(h.Ext) < extWordLen || h.Ext[0] != wordForeign || h.Ext[1] == 0 || h.Ext[3] != 0 {
		return Header{}, ErrReserved
	}
	h.Foreign = Foreign{Format: h.Ext[1], Level: h.Ext[2]}
	if h.Ext = h.Ext[extWordLen:]; len(h.Ext) == 0 {
		h.Ext = nil
	}
	return h, nil
}

// Append appends the header's bytes to dst. It does not check the fields, so that tests and tools can make
// headers that ParseHeader refuses. A header from ParseHeader appends as the bytes that it was parsed from.
func (h Header) Append(dst []byte) []byte {
	isForeign := h.Foreign.Format != 0
	extWords := len(h.Ext) / extWordLen
	flags := byte(0)
	if isForeign {
		flags, extWords = flagForeign, extWords+1
	}
	if h.HasDict {
		flags |= flagDict
	}
	dst = append(dst, Magic...)
	dst = append(dst, h.Version<<4|byte(h.Codec)&0x0F, flags|byte(extWords)&maskExtWords)
	dst = binary.AppendUvarint(dst, uint64(h.RawLen))
	if h.HasDict {
		dst = append(dst, h.Tag[:]...)
		dst = binary.BigEndian.AppendUint32(dst, h.Dict)
	} else {
		dst = binary.LittleEndian.AppendUint32(dst, h.Checksum)
	}
	if isForeign {
		dst = append(dst, h.Foreign.word()...)
	}
	return append(dst, h.Ext...)
}
