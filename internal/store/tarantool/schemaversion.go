package tarantool

import (
	"encoding/binary"
	"sync/atomic"

	tnt "github.com/tarantool/go-tarantool/v2"
)

// The library does not report the schema version of an answer, though each answer has it in its header. So
// versionReader reads the header as it passes:
//
//	+----+-----------------+-------------------------------------------------+----------
//	| CE | length, 4 bytes | 83 00 CE code  01 CF sync  05 CE schema version  | body
//	+----+-----------------+-------------------------------------------------+----------
//
// Keys may come in any order, and numbers with any width.

// versionTracker holds the newest version in any answer.
type versionTracker struct{ newest atomic.Uint64 }

// versionReader finds the version in the bytes that it reads.
type versionReader struct {
	tnt.Conn
	to *versionTracker

	head []byte // of the current frame: its length, and as much of it as the header may take
	left int    // bytes of the frame not read yet
}

const (
	prefixBytes = 5
	headerBytes = 64 // three pairs of numbers take at most 30; newer servers may add more
)

// Read is called by one goroutine only.
func (w *versionReader) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.saw(p[:n])
	return n, err
}

func (w *versionReader) saw(p []byte) {
	for len(p) > 0 {
		if need := prefixBytes - len(w.head); need > 0 {
			n := min(need, len(p))
			w.head = append(w.head, p[:n]...)
			p = p[n:]
			if len(w.head) == prefixBytes {
				w.left = int(binary.BigEndian.Uint32(w.head[1:]))
			}
			continue
		}
		n := min(w.left, len(p))
		w.head = append(w.head, p[:min(n, headerBytes+prefixBytes-len(w.head))]...)
		p, w.left = p[n:], w.left-n
		if w.left == 0 {
			w.note(w.head[prefixBytes:])
			w.head = w.head[:0]
		}
	}
}

// note extracts the version from a header. Versions only grow while a server runs.
func (w *versionReader) note(b []byte) {
	if len(b) == 0 || b[0]&0xf0 != 0x80 {
		return
	}
	pairs := int(b[0] & 0x0f)
	b = b[1:]
	for range pairs {
		key, rest, ok := number(b)
		if !ok {
			return
		}
		value, rest, ok := number(rest)
		if !ok {
			return
		}
		if key == keySchemaVersion {
			w.to.newest.Store(max(w.to.newest.Load(), value))
			return
		}
		b = rest
	}
}

const keySchemaVersion = 5

// number decodes an unsigned MessagePack number.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	if b[0] < 0x80 {
		return uint64(b[0]), b[1:], true
	}
	width := 1 << (b[0] - 0xcc)
	if b[0] < 0xcc || b[0] > 0xcf || len(b) < 1+width {
		return 0, nil, false
	}
	for _, c := range b[1 : 1+width] {
		n = n<<8 | uint64(c)
	}
	return n, b[1+width:], true
}
