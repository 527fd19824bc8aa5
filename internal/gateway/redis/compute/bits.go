package compute

import (
	"encoding/binary"
	"math/bits"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Bits are numbered as Redis numbers them: bit 0 is the most significant of byte 0.
//
//	byte      0                 1
//	bit       0 1 2 3 4 5 6 7   8 9 …
//
// Ranges of bits include both ends and lie inside the value.

// maxBitOffset is the first offset that a server refuses by default: the number of bits
// in its proto-max-bulk-len of 512 MiB.
const maxBitOffset = 512 << 20 << 3

// computeGetBit answers GETBIT key offset.
func computeGetBit(dst []byte, args [][]byte, value []byte) []byte {
	offset, ok := resp.ParseInt(args[2])
	if !ok || offset < 0 || offset >= maxBitOffset {
		return resp.AppendError(dst, errBitOffset)
	}
	if offset>>3 >= int64(len(value)) {
		return resp.AppendInt(dst, 0)
	}
	return resp.AppendInt(dst, int64(value[offset>>3]>>(7-offset&7)&1))
}

// computeBitCount answers BITCOUNT key [start end [BYTE|BIT]]. It ignores the arguments for a missing key,
// and the unit if both ends are negative and the range is empty.
func computeBitCount(dst []byte, args [][]byte, value []byte, exists bool) []byte {
	if !exists {
		return resp.AppendInt(dst, 0)
	}
	if len(args) == 2 {
		return resp.AppendInt(dst, countBits(value))
	}
	if len(args) != 4 && len(args) != 5 {
		return resp.AppendError(dst, errSyntax)
	}
	start, ok := resp.ParseInt(args[2])
	if !ok {
		return resp.AppendError(dst, errNotInteger)
	}
	end, ok := resp.ParseInt(args[3])
	if !ok {
		return resp.AppendError(dst, errNotInteger)
	}
	if start < 0 && end < 0 && start > end {
		return resp.AppendInt(dst, 0)
	}
	unit := int64(8)
	if len(args) == 5 {
		if unit, ok = bitsInUnit(args[4]); !ok {
			return resp.AppendError(dst, errSyntax)
		}
	}
	first, last, ok := bitRange(start, end, unit, value)
	if !ok {
		return resp.AppendInt(dst, 0)
	}
	return resp.AppendInt(dst, countRange(value, first, last))
}

// computeBitPos answers BITPOS key bit [start [end [BYTE|BIT]]]. A missing key reads as endless zeros, and so
// do the bits after a value unless an end is given.
func computeBitPos(dst []byte, args [][]byte, value []byte, exists bool) []byte {
	bit, ok := resp.ParseInt(args[2])
	if !ok {
		return resp.AppendError(dst, errNotInteger)
	}
	if bit != 0 && bit != 1 {
		return resp.AppendError(dst, "ERR The bit argument must be 1 or 0.")
	}
	if !exists {
		return resp.AppendInt(dst, -bit)
	}
	first, last, errText := bitPosRange(args, value)
	if errText != "" {
		return resp.AppendError(dst, errText)
	}
	if first > last {
		return resp.AppendInt(dst, -1)
	}
	pos := findBit(value, first, last, byte(bit))
	if pos < 0 && bit == 0 && len(args) < 5 {
		pos = int64(len(value)) << 3
	}
	return resp.AppendInt(dst, pos)
}

// bitPosRange returns the bits that BITPOS searches; first > last means none. Unlike BITCOUNT it checks the
// unit before the end.
func bitPosRange(args [][]byte, value []byte) (first, last int64, errText string) {
	if len(args) > 6 {
		return 0, 0, errSyntax
	}
	start, end, unit, ok := int64(0), int64(-1), int64(8), true
	if len(args) >= 4 {
		if start, ok = resp.ParseInt(args[3]); !ok {
			return 0, 0, errNotInteger
		}
	}
	if len(args) == 6 {
		if unit, ok = bitsInUnit(args[5]); !ok {
			return 0, 0, errSyntax
		}
	}
	if len(args) >= 5 {
		if end, ok = resp.ParseInt(args[4]); !ok {
			return 0, 0, errNotInteger
		}
	}
	if first, last, ok = bitRange(start, end, unit, value); !ok {
		return 0, -1, ""
	}
	return first, last, ""
}

// bitsInUnit parses the unit of a range.
func bitsInUnit(arg []byte) (int64, bool) {
	switch {
	case resp.IsWord(arg, "bit"):
		return 1, true
	case resp.IsWord(arg, "byte"):
		return 8, true
	}
	return 0, false
}

// bitRange converts a range of units of 1 or 8 bits into the bits of value that it covers. It reports false
// if it covers none. The product can't overflow: the range has been cut to the value before.
func bitRange(start, end, unit int64, value []byte) (first, last int64, ok bool) {
	n := int64(len(value)) * 8 / unit
	start, end = resolve(start, n), min(resolve(end, n), n-1)
	if start > end {
		return 0, 0, false
	}
	return start * unit, end*unit + unit - 1, true
}

// countRange counts the ones among the bits first to last.
func countRange(value []byte, first, last int64) int64 {
	part := value[first>>3 : last>>3+1]
	n := countBits(part)
	n -= int64(bits.OnesCount8(part[0] >> (8 - first&7)))
	return n - int64(bits.OnesCount8(part[len(part)-1]<<(last&7+1)))
}

func countBits(b []byte) int64 {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return int64(n)
}

// findBit returns the first of the bits first to last that equals bit, or -1.
func findBit(value []byte, first, last int64, bit byte) int64 {
	var flip byte // inverts the bits, so that the search is always for a 1
	if bit == 0 {
		flip = 0xff
	}
	head := (value[first>>3] ^ flip) << (first & 7) >> (first & 7)
	if head != 0 {
		return within(first&^7+int64(bits.LeadingZeros8(head)), last)
	}
	i := skipBytes(value, first>>3+1, last>>3+1, flip)
	if i > last>>3 {
		return -1
	}
	return within(i<<3+int64(bits.LeadingZeros8(value[i]^flip)), last)
}

func within(pos, last int64) int64 {
	if pos > last {
		return -1
	}
	return pos
}

// skipBytes returns the first index from i on whose byte is not skip, or end.
func skipBytes(value []byte, i, end int64, skip byte) int64 {
	word := uint64(skip) * 0x0101010101010101
	for i+8 <= end && binary.LittleEndian.Uint64(value[i:]) == word {
		i += 8
	}
	for i < end && value[i] == skip {
		i++
	}
	return i
}
