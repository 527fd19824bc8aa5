package gateway

import (
	"math/bits"
	"sync"
	"unsafe"
)

// Buffers come in classes of powers of two. Larger ones are left to the
// collector: a few huge values must not pin their memory for ever.
const (
	minBufferBits  = 9  // 512 B
	maxBufferBits  = 20 // 1 MiB
	minBufferBytes = 1 << minBufferBits
	maxBufferBytes = 1 << maxBufferBits
)

// bufferPools holds, by class, pointers to the first byte of arrays of exactly
// the class's size. A bare pointer goes into a sync.Pool without the allocation
// that a slice would cost. The collector empties the pools of what is not used.
var bufferPools [maxBufferBits - minBufferBits + 1]sync.Pool

// GetBuffer returns an empty slice with room for n bytes or more, to append to.
// Its old content is undefined. The caller owns it alone, and may grow, keep or
// forget it; PutBuffer gives it back.
//
// A connection that waits for its peer should hold no buffer, or a small one:
// what hangs on an idle connection is multiplied by their number.
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

// GrowBuffer returns b with room for n bytes more, and a nil b as a new buffer. Where b has less room, its content moves to a larger
// buffer, and b goes to the pool. Buffers double up to 1 MiB and grow by a quarter at least beyond, so that what is
// appended piece by piece is copied a few times at most.
func GrowBuffer(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := append(GetBuffer(len(b)+max(n, len(b)/4)), b...)
	PutBuffer(b)
	return grown
}

// PutBuffer hands over b, from GetBuffer or from anywhere else, for use by
// others: nobody may touch its memory any more. b must begin where its memory
// begins, so never put a slice that was cut at the front, nor one that shares
// its memory with a slice still in use. Nil is fine.
func PutBuffer(b []byte) {
	if cap(b) < minBufferBytes || cap(b) > maxBufferBytes {
		return
	}
	class := bits.Len(uint(cap(b))) - 1 - minBufferBits // a grown slice counts as the class below
	bufferPools[class].Put(unsafe.SliceData(b))
}
