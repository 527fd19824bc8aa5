// Package grpc cuts the body of a gRPC request or response into messages.
//
//	+------------+---------------------------+----------------+
//	| flag 1 B   | length 4 B, big-endian    | message        |   and so on to the end
//	+------------+---------------------------+----------------+
//	  0 plain
//	  1 compressed as the header grpc-encoding says
//	  2, 3 the same, marked; between two gateways only
//
// It is pure: bytes in, bytes out. A length that a header announces is only read, and
// nothing is allocated for it. See "Length-Prefixed-Message" in gRPC's PROTOCOL-HTTP2.md.
package grpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// HeaderLen is the size in bytes of what stands before a message.
const HeaderLen = 5

// Errors of headers and bodies.
var (
	// ErrFlag: the flag is neither 0 nor 1. What follows can't be understood.
	ErrFlag = errors.New("grpc: unknown flag of a message")
	// ErrTruncated: the body ends within a message.
	ErrTruncated = errors.New("grpc: the body ends within a message")
)

// Header is what stands before a message.
type Header struct {
	Compressed bool
	Len        uint32 // of the message, in bytes
}

// ParseHeader reads the header at the beginning of b, which holds HeaderLen bytes or more.
func ParseHeader(b []byte) (Header, error) {
	h := Header{Compressed: b[0] == 1, Len: binary.BigEndian.Uint32(b[1:HeaderLen])}
	if b[0] > 1 {
		return h, fmt.Errorf("%w: %d", ErrFlag, b[0])
	}
	return h, nil
}

// mark is a bit of the flag that gateways use between each other.
const mark = 2

// ParseMarked is ParseHeader for what a gateway sent that marks messages.
func ParseMarked(b []byte) (h Header, marked bool, err error) {
	plain := [HeaderLen]byte(b)
	plain[0] &^= mark
	h, err = ParseHeader(plain[:])
	return h, b[0]&mark != 0, err
}

// Mark marks the header that b begins with.
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

// Scanner finds the messages of a body that passes in pieces of any size, and holds nothing of it but a
// header that is cut in two. The zero value is at the beginning of a body.
type Scanner struct {
	header [HeaderLen]byte
	have   int    // bytes of header
	left   uint32 // bytes of the current message that are still to come
}

// Scan takes the next piece and calls each for every header that is complete with it. It
// returns the error of ParseHeader, after which the scanner is of no more use.
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
