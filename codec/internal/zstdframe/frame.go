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

const (
	Magic     = "\x28\xb5\x2f\xfd" // begins a frame
	DictMagic = "\x37\xa4\x30\xec" // begins a trained dictionary, which holds entropy tables in addition to its content
)

// Sizes in bytes.
const (
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

// checkBlocks checks that the last block ends the frame, and that the blocks can hold rawLen bytes.
func (f *Frame) checkBlocks(rawLen int) error {
	var sum blocks
	rest, last := f.body, false
	for !last {
		var err error
		if rest, last, err = sum.next(rest); err != nil {
			return err
		}
	}
	f.Blocks, f.Compressed = sum.count, sum.compressed
	checksumLen := 0
	if f.checksum {
		checksumLen = 4
	}
	if len(rest) != checksumLen {
		return fmt.Errorf("%d bytes after the last zstd block", len(rest))
	}
	if rawLen == 0 && f.Compressed > 0 { // no library is called for an empty value
		return errors.New("compressed zstd block in an empty value")
	}
	return sum.checkSize(rawLen)
}

// blocks sums up the headers of blocks.
type blocks struct {
	count, compressed int
	plain             int // bytes of content in blocks that are not compressed
}

// next adds the block at the start of b. It returns the bytes after the block, and whether the block is marked as the
// last one.
func (s *blocks) next(b []byte) (rest []byte, last bool, err error) {
	if len(b) < blockHeader {
		return nil, false, errTruncated
	}
	header := int(littleEndian(b[:blockHeader]))
	size := header >> 3
	if size > MaxBlock {
		return nil, false, fmt.Errorf("zstd block of %d bytes", size)
	}
	stored := size
	switch header >> 1 & 3 {
	case rawBlock:
		s.plain += size
	case rleBlock:
		s.plain += size
		stored = 1
	case compressedBlock:
		s.compressed++
	default:
		return nil, false, errors.New("zstd block of a reserved type")
	}
	if len(b) < blockHeader+stored {
		return nil, false, errTruncated
	}
	s.count++
	return b[blockHeader+stored:], header&1 != 0, nil
}

// checkSize checks that the blocks can hold rawLen bytes: at least those of the plain blocks, and MaxBlock for each
// compressed one.
func (s *blocks) checkSize(rawLen int) error {
	if rawLen < s.plain || rawLen-s.plain > s.compressed*MaxBlock {
		return fmt.Errorf("%d zstd blocks can't hold %d bytes", s.count, rawLen)
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
	var sum blocks
	for len(src) > 0 {
		rest, last, err := sum.next(src)
		if err != nil {
			return err
		}
		if last {
			return errors.New("zstd frame ends within a stream")
		}
		src = rest
	}
	return sum.checkSize(rawLen)
}
