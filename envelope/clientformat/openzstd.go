package clientformat

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdMaxWindow is libzstd's own limit, in bytes. A large window costs nothing here, since it lies in the
// output.
const zstdMaxWindow = 128 << 20

// zstdGuess is the ratio first assumed for a frame that declares no size.
const zstdGuess = 16

// zstdDecoder decodes whole frames within the capacity of dst, as many concurrently as there are processors.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(zstdMaxWindow))
})

// openZstd opens one frame. A frame that declares its size gets that capacity. For others the capacity is a guess,
// and grows when decoding fails: the decoder's error does not distinguish a small buffer from damage.
func openZstd(dst, stored []byte, maxRaw int) ([]byte, error) {
	most, declared, err := zstdSize(stored)
	if err != nil {
		return nil, err
	}
	if declared && most > maxRaw {
		return nil, ErrTooLarge
	}
	decoder, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	n, full := len(dst), min(most, maxRaw)
	room := full
	if !declared {
		room = min(full, max(cap(dst)-n, zstdGuess*len(stored)))
	}
	for ; ; room = min(full, zstdGuess*room) {
		dst = slices.Grow(dst, room)
		out, err := decoder.DecodeAll(stored, dst[:n:n+room])
		switch {
		case err == nil:
			return out, nil
		case room < full:
		case full < most:
			return nil, fmt.Errorf("%w, or damaged: %w", ErrTooLarge, err)
		default:
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}

// zstdSize walks the blocks of stored, which must be one frame. It returns the largest size of the content,
// or the exact one if declared. A declared size that the blocks can't hold is damage, and is found without
// allocating.
func zstdSize(stored []byte) (most int, declared bool, err error) {
	var h zstd.Header
	if err := h.Decode(stored); err != nil || h.Skippable || h.DictionaryID != 0 {
		return 0, false, fmt.Errorf("%w: not a zstd frame without a dictionary", ErrCorrupt)
	}
	rest := stored[h.HeaderSize:]
	for last := false; !last; {
		var holds, length int
		if holds, length, last = zstdBlockOf(rest); length == 0 {
			return 0, false, ErrCorrupt
		}
		most, rest = most+holds, rest[length:]
	}
	checksum := 0
	if h.HasCheckSum {
		checksum = zstdChecksum
	}
	switch {
	case len(rest) != checksum:
		return 0, false, fmt.Errorf("%w: %d bytes after the last block", ErrCorrupt, len(rest))
	case h.HasFCS && h.FrameContentSize > uint64(most):
		return 0, false, fmt.Errorf("%w: the blocks can't hold %d bytes", ErrCorrupt, h.FrameContentSize)
	case h.HasFCS:
		return int(h.FrameContentSize), true, nil
	}
	return most, false, nil
}

// zstdBlockOf returns how many bytes the block at the start of b holds at most, and its length including the
// header, 0 if b is too short.
func zstdBlockOf(b []byte) (holds, length int, last bool) {
	if len(b) < zstdBlockBytes {
		return 0, 0, false
	}
	header := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	size := header >> 3
	holds, length = size, zstdBlockBytes+size
	switch header >> 1 & 3 {
	case zstdRLE:
		length = zstdBlockBytes + 1
	case zstdCompressed:
		holds = zstdBlock
	}
	if size > zstdBlock || length > len(b) {
		return 0, 0, false
	}
	return holds, length, header&1 != 0
}
