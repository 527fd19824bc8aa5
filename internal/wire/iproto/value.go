package iproto

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// ErrMalformed is wrapped by all errors of this package.
var ErrMalformed = errors.New("malformed iproto")

var errShort = fmt.Errorf("%w: a value is cut off", ErrMalformed)

// Span is a range of the caller's bytes.
type Span struct{ At, Len int }

// End returns the position after the span.
func (s Span) End() int { return s.At + s.Len }

// Of returns the bytes at the span.
func (s Span) Of(b []byte) []byte { return b[s.At:s.End():s.End()] }

// Kind is the kind of a value, as far as a gateway needs it.
type Kind uint8

// Kinds of values.
const (
	Other Kind = iota // numbers, nil, booleans, extensions
	String
	Binary
	Array
	Map
)

// Head is the beginning of a value.
type Head struct {
	Kind Kind
	// Content is the span of the bytes of a string or binary. For an array or map it is the position after
	// the head, with length 0. For any other value it is all of the value.
	Content Span
	Count   int // number of elements of an array, or of key-value pairs of a map
}

// children returns the number of values that follow the head and belong to it.
func (h *Head) children() int {
	if h.Kind == Map {
		return 2 * h.Count
	}
	return h.Count
}

// ReadHead reads the head of the value at b[at:]. It returns ErrMalformed if b does not hold all of a string
// or binary, or holds fewer bytes after the head of an array or map than that has elements.
func ReadHead(b []byte, at int) (h Head, err error) {
	v := b[at:]
	var content, rest []byte
	var n uint32
	switch msgp.NextType(v) {
	case msgp.StrType:
		h.Kind = String
		content, rest, err = msgp.ReadStringZC(v)
	case msgp.BinType:
		h.Kind = Binary
		content, rest, err = msgp.ReadBytesZC(v)
	case msgp.ArrayType:
		h.Kind = Array
		n, rest, err = msgp.ReadArrayHeaderBytes(v)
	case msgp.MapType:
		h.Kind = Map
		n, rest, err = msgp.ReadMapHeaderBytes(v)
	default:
		rest, err = msgp.Skip(v)
		content = v[:len(v)-len(rest)]
	}
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	h.Count, h.Content = int(n), Span{len(b) - len(rest) - len(content), len(content)}
	if int64(n) > int64(len(rest)) || h.children() > len(rest) {
		return h, errShort
	}
	return h, nil
}

// Skip returns the end of the value at b[at:].
func Skip(b []byte, at int) (end int, err error) {
	for left := 1; left > 0; left-- {
		h, err := ReadHead(b, at)
		if err != nil {
			return at, err
		}
		at = h.Content.End()
		if left += h.children(); left > len(b)-at+1 {
			return at, errShort
		}
	}
	return at, nil
}

// Strings iterates over all strings and binaries in a sequence of whole values, at any depth, including keys
// of maps.
type Strings struct {
	b    []byte
	next int
	end  int

	Kind    Kind // kind of the current value
	At      int  // position of its head
	Content Span // span of its bytes
	err     error
}

// NewStrings returns an iterator over the span of b.
func NewStrings(b []byte, in Span) Strings { return Strings{b: b, next: in.At, end: in.End()} }

// Next advances to the next string or binary and reports whether there is one.
func (s *Strings) Next() bool {
	for s.next < s.end {
		h, err := ReadHead(s.b[:s.end], s.next)
		if err != nil {
			s.err = err
			return false
		}
		at := s.next
		s.next = h.Content.End()
		if h.Kind == String || h.Kind == Binary {
			s.Kind, s.At, s.Content = h.Kind, at, h.Content
			return true
		}
	}
	return false
}

// Err returns the error that ended the iteration, or nil at the end of the span.
func (s *Strings) Err() error { return s.err }

// Elements returns the spans of the elements of the array at b[at:], and the end of the array. It overwrites dst to
// reuse its memory. It returns ErrMalformed for an array of more than limit elements.
func Elements(dst []Span, b []byte, at, limit int) (elements []Span, end int, err error) {
	h, err := ReadHead(b, at)
	switch {
	case err != nil:
		return dst[:0], at, err
	case h.Kind != Array:
		return dst[:0], at, fmt.Errorf("%w: no array", ErrMalformed)
	case h.Count > limit:
		return dst[:0], at, fmt.Errorf("%w: an array of %d elements, more than %d", ErrMalformed, h.Count, limit)
	}
	dst = dst[:0]
	at = h.Content.At
	for range h.Count {
		end, err := Skip(b, at)
		if err != nil {
			return dst, at, err
		}
		dst = append(dst, Span{at, end - at})
		at = end
	}
	return dst, at, nil
}

// Uint reads an unsigned integer.
func Uint(v []byte) (uint64, bool) {
	if len(v) == 0 || v[0] > 0x7f && (v[0] < 0xcc || v[0] > 0xcf) { // msgp would accept positive signed integers too
		return 0, false
	}
	n, _, err := msgp.ReadUint64Bytes(v)
	return n, err == nil
}

// Int reads an integer, signed or not.
func Int(v []byte) (int64, bool) {
	if msgp.NextType(v) != msgp.IntType && msgp.NextType(v) != msgp.UintType {
		return 0, false
	}
	n, _, err := msgp.ReadInt64Bytes(v)
	return n, err == nil
}

// Number reads an integer or a floating-point number. Lua does not distinguish them.
func Number(v []byte) (float64, bool) {
	if n, ok := Int(v); ok {
		return float64(n), true
	}
	if n, ok := Uint(v); ok { // above the largest signed integer
		return float64(n), true
	}
	f, _, err := msgp.ReadFloat64Bytes(v)
	return f, err == nil
}

// Text returns the bytes of a string, and whether it is one.
func Text(v []byte) ([]byte, bool) {
	if msgp.NextType(v) != msgp.StrType {
		return nil, false
	}
	s, _, err := msgp.ReadStringZC(v)
	return s, err == nil
}
