// Package zstdframe splits zstd frames and reassembles them without decoding their blocks (RFC 8878, section
// 3.1.1).
//
// Cinch stores a frame without its magic number and with the shortest header that still makes it a complete
// frame: no dictionary ID and no checksum, since the envelope has both, and a single segment up to MaxWindow
// bytes.
//
//	stored:  descriptor(1) [window(1)] content size(1|2|4) blocks…
//	library: magic(4) descriptor(1) window(1) [dictionary ID(4)] [content size(4)] blocks…
//
// Zstd libraries trust a frame's header: they allocate what it declares, continue with a second frame after
// the first, and skip frames that they don't know. So a frame is checked here, block by block, and then
// passed to the library with a new header that declares nothing.
package zstdframe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Sizes in bytes.
const (
	Magic     = "\x28\xb5\x2f\xfd"
	MaxWindow = 8 << 20   // window of all frames that Cinch writes
	MaxBlock  = 128 << 10 // maximum size of a block's content

	minWindowLog = 10
	blockHeader  = 3
)

const (
	flagSingleSegment = 1 << 5
	flagReserved      = 1 << 3
	flagChecksum      = 1 << 2
	maskDictID        = 3
)

// Block types.
const (
	rawBlock = iota
	rleBlock
	compressedBlock
)

var errTruncated = errors.New("truncated zstd frame")

// Frame is a checked frame. It refers to the bytes it was parsed from.
type Frame struct {
	DictID     uint32 // 0 if the frame names no dictionary
	Blocks     int
	Compressed int // how many of the blocks are compressed

	checksum bool
	body     []byte // blocks, and the checksum if present
}

// Parse checks that src is one complete frame, without its magic number, that can hold exactly rawLen bytes.
func Parse(src []byte, rawLen int) (Frame, error) {
	if len(src) == 0 {
		return Frame{}, errTruncated
	}
	fhd, rest := src[0], src[1:]
	if fhd&flagReserved != 0 {
		return Frame{}, errors.New("reserved bit set in a zstd frame")
	}
	windowLen, idLen, contentLen := fieldLens(fhd)
	if len(rest) < windowLen+idLen+contentLen {
		return Frame{}, errTruncated
	}
	f := Frame{checksum: fhd&flagChecksum != 0, DictID: uint32(littleEndian(rest[windowLen : windowLen+idLen]))}
	f.body = rest[windowLen+idLen+contentLen:]
	if contentLen > 0 {
		declared := littleEndian(rest[windowLen+idLen : windowLen+idLen+contentLen])
		if contentLen == 2 {
			declared += 256
		}
		if declared != uint64(rawLen) {
			return Frame{}, fmt.Errorf("zstd frame declares %d bytes", declared)
		}
	}
	return f, f.checkBlocks(rawLen)
}

// fieldLens returns the lengths in bytes of the fields that follow a frame header descriptor: window,
// dictionary ID, content size.
func fieldLens(fhd byte) (window, id, content int) {
	single := fhd&flagSingleSegment != 0
	if !single {
		window = 1
	}
	if fhd>>6 != 0 || single {
		content = 1 << (fhd >> 6)
	}
	return window, [...]int{0, 1, 2, 4}[fhd&maskDictID], content
}

func littleEndian(b []byte) (v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// checkBlocks walks over the blocks' headers: the last block must end the frame, and rawLen must lie between
// the size of the raw blocks and the maximum size of all blocks.
func (f *Frame) checkBlocks(rawLen int) error {
	plain, checksumLen := 0, 0
	if f.checksum {
		checksumLen = 4
	}
	for rest, last := f.body, false; !last; {
		if len(rest) < blockHeader {
			return errTruncated
		}
		header := int(littleEndian(rest[:blockHeader]))
		rest = rest[blockHeader:]
		last = header&1 != 0
		size := header >> 3
		if size > MaxBlock {
			return fmt.Errorf("zstd block of %d bytes", size)
		}
		stored := size
		switch header >> 1 & 3 {
		case rawBlock:
			plain += size
		case rleBlock:
			plain += size
			stored = 1
		case compressedBlock:
			f.Compressed++
		default:
			return errors.New("zstd block of a reserved type")
		}
		if len(rest) < stored {
			return errTruncated
		}
		rest = rest[stored:]
		f.Blocks++
		if last && len(rest) != checksumLen {
			return fmt.Errorf("%d bytes after the last zstd block", len(rest))
		}
	}
	if rawLen == 0 && f.Compressed > 0 { // no library is called for an empty value
		return errors.New("compressed zstd block in an empty value")
	}
	if rawLen < plain || rawLen-plain > f.Compressed*MaxBlock {
		return fmt.Errorf("%d zstd blocks can't hold %d bytes", f.Blocks, rawLen)
	}
	return nil
}

// Header holds the fields that AppendTo declares to a library.
type Header struct {
	WindowLog  int    // 10 to 31
	DictID     uint32 // 0: none
	ContentLen int    // -1: not declared
}

// AppendTo appends the frame with its magic number and header h.
func (f *Frame) AppendTo(dst []byte, h Header) []byte {
	var fhd byte
	if f.checksum {
		fhd |= flagChecksum
	}
	if h.DictID != 0 {
		fhd |= maskDictID
	}
	if h.ContentLen >= 0 {
		fhd |= 2 << 6
	}
	dst = append(dst, Magic...)
	dst = append(dst, fhd, byte(h.WindowLog-minWindowLog)<<3)
	if h.DictID != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, h.DictID)
	}
	if h.ContentLen >= 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(h.ContentLen))
	}
	return append(dst, f.body...)
}

// WindowLog returns log2 of the smallest window that covers n bytes.
func WindowLog(n int) int {
	return max(minWindowLog, bits.Len(uint(max(n, 1)-1)))
}

// Store turns the library's frame at b[start:], which holds rawLen bytes,
// into the form that is stored, in place.
func Store(b []byte, start, rawLen int) ([]byte, error) {
	frame := b[start:]
	if len(frame) <= len(Magic) || string(frame[:len(Magic)]) != Magic {
		return nil, errors.New("not a zstd frame")
	}
	frame = frame[len(Magic):]
	fhd := frame[0]
	if fhd&flagChecksum != 0 {
		return nil, errors.New("zstd frame with a checksum")
	}
	windowLen, idLen, contentLen := fieldLens(fhd)
	body := 1 + windowLen + idLen + contentLen
	if len(frame) < body {
		return nil, errTruncated
	}

	// The stored header is never longer than the library's, which is preceded by a magic number: so the body
	// moves down, or stays.
	var descriptor byte
	out := b[:start]
	switch {
	case rawLen < 256:
	case rawLen < 256+1<<16:
		descriptor = 1 << 6
	default:
		descriptor = 2 << 6
	}
	if windowLen == 0 || rawLen <= MaxWindow {
		out = append(out, descriptor|flagSingleSegment)
	} else {
		out = append(out, descriptor, frame[1])
	}
	switch descriptor >> 6 {
	case 0:
		out = append(out, byte(rawLen))
	case 1:
		out = binary.LittleEndian.AppendUint16(out, uint16(rawLen-256))
	default:
		out = binary.LittleEndian.AppendUint32(out, uint32(rawLen))
	}
	return append(out, frame[body:]...), nil
}

// AppendEmpty appends the stored form of a frame that holds nothing.
func AppendEmpty(dst []byte) []byte {
	return append(dst, flagSingleSegment, 0, 1, 0, 0)
}

// AppendEnd appends the last block of a frame, which is empty.
func AppendEnd(dst []byte) []byte { return append(dst, 1, 0, 0) }

// StreamHeaderLen is the length in bytes of what StreamHeader appends.
const StreamHeaderLen = len(Magic) + 2

// StreamHeader appends the beginning of a frame that declares a window and nothing else.
func StreamHeader(dst []byte, windowLog int) []byte {
	dst = append(dst, Magic...)
	return append(dst, 0, byte(windowLog-minWindowLog)<<3)
}

// CheckPiece checks that src is a number of whole blocks, as a flush leaves them, that can hold exactly rawLen bytes.
// No block may be marked as the last of its frame, so that no frame can follow that declares another window.
func CheckPiece(src []byte, rawLen int) error {
	plain, compressed := 0, 0
	for len(src) > 0 {
		if len(src) < blockHeader {
			return errTruncated
		}
		header := littleEndian(src[:blockHeader])
		src = src[blockHeader:]
		size := int(header >> 3)
		stored := size
		switch header >> 1 & 3 {
		case rawBlock:
			plain += size
		case rleBlock:
			plain += size
			stored = 1
		case compressedBlock:
			compressed++
		default:
			return errors.New("zstd block of a reserved type")
		}
		switch {
		case header&1 != 0:
			return errors.New("zstd frame ends within a stream")
		case size > MaxBlock:
			return fmt.Errorf("zstd block of %d bytes", size)
		case len(src) < stored:
			return errTruncated
		}
		src = src[stored:]
	}
	if rawLen < plain || rawLen-plain > compressed*MaxBlock {
		return fmt.Errorf("%d zstd blocks and %d bytes can't hold %d bytes", compressed, plain, rawLen)
	}
	return nil
}
