package grpc

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// What two gateways tell each other about dictionaries; see docs/GRPC.md. A message that is
// compressed with one:
//
//	+----------------------------+--------------------------------------------------+
//	| number 4 B, big-endian     | zstd frame without its magic number              |
//	+----------------------------+--------------------------------------------------+
//
// where a frame without a dictionary has its magic number.

// ErrPair: what a gateway said about dictionaries can't be understood.
var ErrPair = errors.New("grpc: malformed exchange between gateways")

// zstdMagic begins a zstd frame, as bytes and as a dictionary's number.
const (
	zstdMagic       = "\x28\xb5\x2f\xfd"
	zstdMagicNumber = 0x28b52ffd
)

// Nameable reports whether messages can name a dictionary of that number.
func Nameable(number uint32) bool { return number != 0 && number != zstdMagicNumber }

// AppendPaired appends what stands before the frame of a message that was compressed with a
// dictionary.
func AppendPaired(dst []byte, number uint32) []byte {
	if !Nameable(number) {
		panic("grpc: a dictionary that can't be named")
	}
	return binary.BigEndian.AppendUint32(dst, number)
}

// Paired is a message taken apart. It refers to the bytes that it was parsed from.
type Paired struct {
	Number uint32 // of the dictionary; 0: Frame is a whole zstd frame, and Len is not known
	Len    uint64 // of the message as the frame declares it; the caller must check it when it opens the frame
	Frame  []byte
}

// ParsePaired takes a message of the private encoding apart.
func ParsePaired(b []byte) (Paired, error) {
	if strings.HasPrefix(string(b[:min(4, len(b))]), zstdMagic) {
		return Paired{Frame: b}, nil
	}
	if len(b) < 4 || binary.BigEndian.Uint32(b) == 0 {
		return Paired{}, fmt.Errorf("%w: a message without a dictionary's number", ErrPair)
	}
	p := Paired{Number: binary.BigEndian.Uint32(b), Frame: b[4:]}
	var err error
	p.Len, err = frameLen(p.Frame)
	return p, err
}

// Bits of a zstd frame's descriptor.
const (
	maskDictID    = 3
	singleSegment = 1 << 5
)

// frameLen reads what a zstd frame without its magic number says of its content's length.
func frameLen(b []byte) (uint64, error) {
	if len(b) == 0 || b[0]&maskDictID != 0 {
		return 0, fmt.Errorf("%w: a frame without a descriptor of ours", ErrPair)
	}
	single := b[0]&singleSegment != 0
	at := 1
	if !single {
		at = 2 // the window
	}
	size := 1 << (b[0] >> 6)
	switch {
	case size == 1 && !single:
		return 0, fmt.Errorf("%w: a frame that does not tell its length", ErrPair)
	case len(b) < at+size:
		return 0, fmt.Errorf("%w: a frame that is cut off", ErrPair)
	case size == 1:
		return uint64(b[at]), nil
	case size == 2:
		return uint64(binary.LittleEndian.Uint16(b[at:])) + 256, nil
	case size == 4:
		return uint64(binary.LittleEndian.Uint32(b[at:])), nil
	}
	return binary.LittleEndian.Uint64(b[at:]), nil
}

// HashLen is the size in bytes of the SHA-256 that names a dictionary in full.
const HashLen = sha256.Size

// AppendDictionary appends the message that carries a dictionary.
func AppendDictionary(dst []byte, hash [HashLen]byte, content []byte) []byte {
	return append(append(dst, hash[:]...), content...)
}

// ParseDictionary checks that message. The content refers to b.
func ParseDictionary(b []byte) (content []byte, err error) {
	if len(b) <= HashLen {
		return nil, fmt.Errorf("%w: %d bytes are no dictionary", ErrPair, len(b))
	}
	if sha256.Sum256(b[HashLen:]) != [HashLen]byte(b) {
		return nil, fmt.Errorf("%w: a dictionary that has another hash", ErrPair)
	}
	return b[HashLen:], nil
}

// ParseHash reads a hash as headers have it.
func ParseHash(s string) (hash [HashLen]byte, err error) {
	if len(s) != 2*HashLen {
		return hash, fmt.Errorf("%w: %d characters are no hash", ErrPair, len(s))
	}
	if _, err := hex.Decode(hash[:], []byte(s)); err != nil {
		return hash, fmt.Errorf("%w: %w", ErrPair, err)
	}
	return hash, nil
}

// FormatNumber writes a dictionary's number as headers have it.
func FormatNumber(n uint32) string { return fmt.Sprintf("%08x", n) }

// ParseNumber reads it.
func ParseNumber(s string) (uint32, error) {
	var b [4]byte
	if len(s) != 2*len(b) {
		return 0, fmt.Errorf("%w: %d characters are no number", ErrPair, len(s))
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrPair, err)
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// ID identifies a dictionary in the list of those that a gateway holds. It is twice as long as the number, so that
// no other is ever mistaken for it.
type ID uint64

// IDOf returns the ID of the dictionary with a hash.
func IDOf(hash [HashLen]byte) ID { return ID(binary.BigEndian.Uint64(hash[:])) }

// MaxIDs is the maximum number of dictionaries in a list.
const MaxIDs = 64

// FormatIDs writes a list as headers have it.
func FormatIDs(ids []ID) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%016x", uint64(id))
	}
	return string(b)
}

// ParseIDs reads it. Of a list with a mistake it takes nothing: without dictionaries
// messages are longer, and right.
func ParseIDs(list string) []ID {
	var ids []ID
	for list != "" {
		one, rest, more := strings.Cut(list, ",")
		var b [8]byte
		if len(one) != 2*len(b) || len(ids) == MaxIDs || more && rest == "" {
			return nil
		}
		if _, err := hex.Decode(b[:], []byte(one)); err != nil {
			return nil
		}
		ids = append(ids, ID(binary.BigEndian.Uint64(b[:])))
		list = rest
	}
	return ids
}
