// Package zstdframe takes zstd frames apart and puts them together again
// without decoding what their blocks hold (RFC 8878, section 3.1.1).
//
// Cinch stores a frame without its magic number and with the shortest header
// that still makes it a complete frame: no dictionary ID and no checksum,
// since the envelope has both, and a single segment up to MaxWindow bytes.
//
//	stored:  descriptor(1) [window(1)] content size(1|2|4) blocks…
//	library: magic(4) descriptor(1) window(1) [dictionary ID(4)] [content size(4)] blocks…
//
// Zstd libraries trust a frame's header: they allocate what it declares, go on
// to a second frame behind the first, and skip frames they don't know. So a
// frame is checked here, block by block, and then handed over with a header of
// our own making that promises nothing.
package zstdframe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Sizes in bytes.
const (
	Magic        = "\x28\xb5\x2f\xfd"
	MaxWindow    = 8 << 20   // window of any frame we write
	MaxBlock     = 128 << 10 // what one block holds, compressed or not
	MaxHeaderLen = 4 + 14    // magic number included

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
	DictID     uint32 // 0 when the frame names no dictionary
	Blocks     int
	Compressed int // how many of the blocks are compressed

	checksum bool
	window   byte   // window descriptor
	single   bool   // no window descriptor: the window is the content
	body     []byte // blocks, and the checksum if there is one
}

// Parse checks that src is one whole frame, without its magic number, that
// can hold exactly rawLen bytes.
func Parse(src []byte, rawLen int) (Frame, error) {
	f, content, err := parseHeader(src)
	if err != nil {
		return Frame{}, err
	}
	if content >= 0 && content != int64(rawLen) {
		return Frame{}, fmt.Errorf("zstd frame declares %d bytes", content)
	}
	return f, f.checkBlocks(rawLen)
}

// parseHeader returns the content size, or -1 when the frame doesn't tell.
func parseHeader(src []byte) (f Frame, content int64, err error) {
	if len(src) == 0 {
		return f, 0, errTruncated
	}
	fhd, rest := src[0], src[1:]
	if fhd&flagReserved != 0 {
		return f, 0, errors.New("reserved bit set in a zstd frame")
	}
	f.checksum = fhd&flagChecksum != 0
	f.single = fhd&flagSingleSegment != 0
	var windowLen, contentLen int
	if !f.single {
		windowLen = 1
	}
	if fhd>>6 != 0 || f.single {
		contentLen = 1 << (fhd >> 6)
	}
	idLen := [...]int{0, 1, 2, 4}[fhd&maskDictID]
	if len(rest) < windowLen+idLen+contentLen {
		return f, 0, errTruncated
	}
	if windowLen > 0 {
		f.window, rest = rest[0], rest[1:]
	}
	f.DictID, rest = uint32(littleEndian(rest[:idLen])), rest[idLen:]
	content, rest = int64(littleEndian(rest[:contentLen])), rest[contentLen:]
	switch contentLen {
	case 0:
		content = -1
	case 2:
		content += 256
	}
	if contentLen == 8 && content < 0 {
		return f, 0, errors.New("absurd content size in a zstd frame")
	}
	f.body = rest
	return f, content, nil
}

func littleEndian(b []byte) (v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// checkBlocks walks the blocks' headers: the last block must end the frame,
// and rawLen must lie between what raw blocks hold and what all could hold.
func (f *Frame) checkBlocks(rawLen int) error {
	plain := 0
	for rest, last := f.body, false; !last; {
		if len(rest) < blockHeader {
			return errTruncated
		}
		header := littleEndian(rest[:blockHeader])
		rest = rest[blockHeader:]
		last = header&1 != 0
		size := int(header >> 3)
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
		if last && len(rest) != f.checksumLen() {
			return fmt.Errorf("%d bytes after the last zstd block", len(rest))
		}
	}
	if rawLen == 0 && f.Compressed > 0 { // no library is asked about an empty value
		return errors.New("compressed zstd block in an empty value")
	}
	if rawLen < plain || rawLen-plain > f.Compressed*MaxBlock {
		return fmt.Errorf("%d zstd blocks can't hold %d bytes", f.Blocks, rawLen)
	}
	return nil
}

func (f *Frame) checksumLen() int {
	if f.checksum {
		return 4
	}
	return 0
}

// Header is what AppendTo declares to a library.
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

// WindowLog returns the smallest window that covers n bytes.
func WindowLog(n int) int {
	return max(minWindowLog, bits.Len(uint(max(n, 1)-1)))
}

// Store turns the library's frame at b[start:], which holds rawLen bytes,
// into the form that is stored, in place.
func Store(b []byte, start, rawLen int) ([]byte, error) {
	if len(b)-start < len(Magic) || string(b[start:start+len(Magic)]) != Magic {
		return nil, errors.New("not a zstd frame")
	}
	f, _, err := parseHeader(b[start+len(Magic):])
	if err != nil {
		return nil, err
	}
	if f.checksum {
		return nil, errors.New("zstd frame with a checksum")
	}
	var header [MaxHeaderLen]byte
	b = append(b[:start], appendHeader(header[:0], rawLen, f)...)
	return append(b, f.body...), nil // moves down, or stays
}

// appendHeader appends the stored form's header. It is never longer than the
// library's, which has a magic number before it.
func appendHeader(dst []byte, rawLen int, f Frame) []byte {
	fhd := byte(0)
	single := f.single || rawLen <= MaxWindow
	if single {
		fhd = flagSingleSegment
	}
	switch {
	case rawLen < 256 && single:
	case rawLen >= 256 && rawLen < 256+1<<16:
		fhd |= 1 << 6
	default:
		fhd |= 2 << 6
	}
	dst = append(dst, fhd)
	if !single {
		dst = append(dst, f.window)
	}
	switch fhd >> 6 {
	case 0:
		return append(dst, byte(rawLen))
	case 1:
		return binary.LittleEndian.AppendUint16(dst, uint16(rawLen-256))
	default:
		return binary.LittleEndian.AppendUint32(dst, uint32(rawLen))
	}
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

// CheckPiece checks that src is a number of whole blocks, as a flush leaves them, that can
// hold exactly rawLen bytes: none is the last of its frame, so nothing can follow that
// declares another window.
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
