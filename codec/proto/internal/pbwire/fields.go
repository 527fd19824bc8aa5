// Package pbwire cuts messages of Protocol Buffers into fields, and detects numbers in their content. It serves
// codec/proto and codec/proto/history: a change to Decimal or FromDecimal changes both formats.
package pbwire

import (
	"encoding/binary"
	"math/bits"
)

// Wire types.
const (
	VarintType  = 0
	Fixed64Type = 1
	BytesType   = 2
	Fixed32Type = 5
)

// MaxFields limits the fields that an encoder has cut but not coded yet, over all levels.
const MaxFields = 1 << 17

// Field is the number in a field, or the beginning and end of its content.
type Field uint64

// Content returns the Field of a content.
func Content(from, to int) Field { return Field(from)<<32 | Field(to) }

// From returns where the content begins.
func (f Field) From() uint32 { return uint32(f >> 32) }

// To returns where the content ends.
func (f Field) To() uint32 { return uint32(f) }

// AppendRun appends the fields of the run at an offset. The run's tag and the size of the tag in bytes are given. It
// returns the offset after the run, or -1 if a field is invalid.
func AppendRun(fields []Field, src []byte, at int, tag uint64, size int) ([]Field, int) {
	for {
		at += size
		var f Field
		if tag&7 == BytesType && at < len(src) && src[at] < 0x80 {
			f = Content(at+1, at+1+int(src[at]))
			if at = int(f.To()); at > len(src) {
				return fields, -1
			}
		} else if f, at = ReadField(src, at, uint8(tag&7)); at < 0 {
			return fields, -1
		}
		fields = append(fields, f)
		if at >= len(src) || len(fields) > MaxFields || src[at] != byte(tag)&0x7f|More(size) {
			return fields, at
		}
		if size > 1 {
			if next, n := Uvarint(src[at:]); next != tag || n != size {
				return fields, at
			}
		}
	}
}

// More returns the high bit of the first byte of a varint of a given size.
func More(size int) byte {
	if size > 1 {
		return 0x80
	}
	return 0
}

// ReadField reads the field content at an offset and returns the offset of the next field, or -1.
func ReadField(src []byte, at int, wire uint8) (f Field, next int) {
	var v uint64
	size := 0
	switch wire {
	case VarintType:
		v, size = Uvarint(src[at:])
	case BytesType:
		if v, size = Uvarint(src[at:]); size == 0 || v > uint64(len(src)-at-size) {
			return 0, -1
		}
		f = Content(at+size, at+size+int(v))
		return f, int(f.To())
	case Fixed64Type:
		if len(src)-at >= 8 {
			v, size = binary.LittleEndian.Uint64(src[at:]), 8
		}
	case Fixed32Type:
		if len(src)-at >= 4 {
			v, size = uint64(binary.LittleEndian.Uint32(src[at:])), 4
		}
	}
	if size == 0 {
		return 0, -1
	}
	return Field(v), at + size
}

// Uvarint reads a varint in its shortest form; its size is 0 if there is none.
func Uvarint(b []byte) (v uint64, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, size = binary.Uvarint(b)
	if size <= 0 || b[size-1] == 0 {
		return 0, 0
	}
	return v, size
}

// AppendUvarint appends v as a varint.
func AppendUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

// UvarintLen returns the length in bytes of v as a varint.
func UvarintLen(v uint64) int { return max((bits.Len64(v)+6)/7, 1) }

// MaybeMessage returns false for most text: tags and lengths of messages are mostly control characters.
func MaybeMessage(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	for _, c := range b[:min(len(b), 16)] {
		if c < ' ' {
			return true
		}
	}
	return false
}
