package tarantool

import (
	"bytes"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// target is what an operation works on.
type target struct {
	position int  // from 0
	number   int  // negative, when it counts from the end
	known    bool // the position is; else it counts from the end, or no field has that name
	nested   bool // within the field, by a path
	fromEnd  bool
}

// target finds what a field's number, name or path means, where numbers count from base.
func (s *space) target(v []byte, base uint64) target {
	if path, ok := wire.Text(v); ok {
		return s.path(path)
	}
	n, ok := wire.Int(v)
	if !ok {
		return target{}
	}
	if n < 0 {
		return s.fromEnd(n)
	}
	n -= int64(min(base, 1<<32))
	return target{position: int(n), known: n >= 0}
}

// fromEnd is the field with a negative number.
func (s *space) fromEnd(n int64) target {
	t := target{number: int(max(n, -1<<31)), fromEnd: true}
	if s.FieldCount > 0 {
		at := n + int64(s.FieldCount)
		t.position, t.known = int(at), at >= 0
	}
	return t
}

// digits reads a number of a path as the server does, which lets it overflow.
func digits(text []byte) (n int32, ok bool) {
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int32(b-'0')
	}
	return n, len(text) > 0
}

// path finds the field that a path begins with: the name of a field, or [number] as Lua counts,
// or ["name"], and what may follow goes into the field.
func (s *space) path(path []byte) target {
	if n, ok := s.FieldNumber(string(path)); ok {
		return target{position: n, known: true}
	}
	path = bytes.TrimPrefix(path, []byte("."))
	if len(path) == 0 {
		return target{}
	}
	var first, rest []byte
	if path[0] == '[' {
		end := closing(path)
		if end < 0 {
			return target{}
		}
		first, rest = path[1:end], path[end+1:]
		if n, ok := digits(first); ok && n > 0 {
			return target{position: int(n) - 1, known: true, nested: len(rest) > 0}
		} else if ok {
			t := s.fromEnd(int64(n) - 1)
			t.nested = len(rest) > 0
			return t
		}
		if len(first) < 2 {
			return target{}
		}
		first = first[1 : len(first)-1] // without quotes
	} else {
		end := bytes.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		first, rest = path[:end], path[end:]
	}
	n, ok := s.FieldNumber(string(first))
	return target{position: n, known: ok, nested: len(rest) > 0}
}

// closing finds the bracket that closes the one at the start; within quotes there is none.
func closing(path []byte) int {
	if len(path) > 1 && (path[1] == '"' || path[1] == '\'') {
		end := bytes.IndexByte(path[2:], path[1])
		if end < 0 || end+3 >= len(path) || path[end+3] != ']' {
			return -1
		}
		return end + 3
	}
	return bytes.IndexByte(path, ']')
}
