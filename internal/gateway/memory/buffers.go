package memory

import (
	"math/bits"
	"sync"
	"unsafe"
)

// Buffers come in classes of powers of two. Larger buffers are left to the garbage collector: a few huge
// values must not pin their memory for ever.
const (
	minBufferBits  = 9  // 512 B
	maxBufferBits  = 20 // 1 MiB
	minBufferBytes = 1 << minBufferBits
	maxBufferBytes = 1 << maxBufferBits
)

// bufferPools holds, by class, pointers to the first byte of arrays of exactly the class's size. A bare
// pointer goes into a sync.Pool without the allocation that a slice would cost. The garbage collector empties
// the pools of unused buffers.
var bufferPools [maxBufferBits - minBufferBits + 1]sync.Pool

// GetBuffer returns an empty slice with room for n bytes or more, to append to. Its old content is undefined.
// The caller owns it, and may grow, keep or drop it; PutBuffer gives it back.
//
// A connection that waits for its peer should hold no buffer, or a small one, since a process may have many
// thousands of idle connections.
func GetBuffer(n int) []byte {
	if n > maxBufferBytes {
		return make([]byte, 0, n)
	}
	class := 0
	if n > minBufferBytes {
		class = bits.Len(uint(n-1)) - minBufferBits
	}
	size := 1 << (class + minBufferBits)
	if p, ok := bufferPools[class].Get().(*byte); ok {
		return unsafe.Slice(p, size)[:0]
	}
	return make([]byte, 0, size)
}

// GrowBuffer returns b with room for n more bytes; for a nil b it returns a new buffer. If b has less room,
// its content moves to a larger buffer, and b goes back to the pool. Buffers double up to 1 MiB and grow by
// at least a quarter beyond, so that bytes appended piece by piece are copied a few times at most.
func GrowBuffer(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := append(GetBuffer(len(b)+max(n, len(b)/4)), b...)
	PutBuffer(b)
	return grown
}

// PutBuffer puts b, from GetBuffer or from anywhere else, into the pool. The caller must not use its memory
// any more. b must begin where its array begins, so never put a slice that was cut at the front, nor one that
// shares its memory with a slice still in use. b may be nil.
func PutBuffer(b []byte) {
	if cap(b) < minBufferBytes || cap(b) > maxBufferBytes {
		return
	}
	class := bits.Len(uint(cap(b))) - 1 - minBufferBits // a grown slice counts as the class below
	bufferPools[class].Put(unsafe.SliceData(b))
}
