// Package grpc splits the body of a gRPC request or response into messages.
//
//	+------------+---------------------------+----------------+
//	| flag 1 B   | length 4 B, big-endian    | message        |   and so on to the end
//	+------------+---------------------------+----------------+
//	  0 plain
//	  1 compressed as the header grpc-encoding says
//	  2, 3 the same, marked; between two gateways only
//
// It does no I/O, and allocates nothing for the length that a header announces. See "Length-Prefixed-Message"
// in gRPC's PROTOCOL-HTTP2.md.
package grpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// HeaderLen is the size of a message's header in bytes.
const HeaderLen = 5

// ErrFlag is returned for a flag other than 0 and 1. The rest of the body can't be parsed.
var ErrFlag = errors.New("grpc: unknown flag of a message")

// Header is the header of a message.
type Header struct {
	Compressed bool
	Len        uint32 // of the message, in bytes
}

// ParseHeader parses the header at the beginning of b, which must have at least HeaderLen bytes.
func ParseHeader(b []byte) (Header, error) {
	h := Header{Compressed: b[0] == 1, Len: binary.BigEndian.Uint32(b[1:HeaderLen])}
	if b[0] > 1 {
		return h, fmt.Errorf("%w: %d", ErrFlag, b[0])
	}
	return h, nil
}

// mark is the bit of the flag that gateways use among each other.
const mark = 2

// ParseMarked is ParseHeader for a body from a gateway that marks messages. It reports whether this one is
// marked.
func ParseMarked(b []byte) (h Header, marked bool, err error) {
	plain := [HeaderLen]byte(b)
	plain[0] &^= mark
	h, err = ParseHeader(plain[:])
	return h, b[0]&mark != 0, err
}

// Mark sets the mark in the header that b begins with.
func Mark(b []byte) { b[0] |= mark }

// AppendHeader appends the header of a message of n bytes.
func AppendHeader(dst []byte, compressed bool, n int) []byte {
	if n < 0 || n > math.MaxUint32 {
		panic("grpc: a message of impossible length")
	}
	flag := byte(0)
	if compressed {
		flag = 1
	}
	return binary.BigEndian.AppendUint32(append(dst, flag), uint32(n))
}

// Scanner finds the messages of a body that arrives in pieces of any size. It stores no more than the
// beginning of a header. The zero value is ready for the beginning of a body.
type Scanner struct {
	header [HeaderLen]byte
	have   int    // bytes of header
	left   uint32 // bytes of the current message that are still to come
}

// Scan scans the next piece, and calls each for every header that it completes. It returns the error of
// ParseHeader; after an error the scanner must not be used any more.
func (s *Scanner) Scan(piece []byte, each func(Header)) error {
	for len(piece) > 0 {
		if n := min(uint64(s.left), uint64(len(piece))); n > 0 {
			s.left -= uint32(n)
			piece = piece[n:]
			continue
		}
		n := copy(s.header[s.have:], piece)
		s.have += n
		piece = piece[n:]
		if s.have < HeaderLen {
			return nil
		}
		h, err := ParseHeader(s.header[:])
		if err != nil {
			return err
		}
		s.have, s.left = 0, h.Len
		each(h)
	}
	return nil
}
