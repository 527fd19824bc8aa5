package peer

import (
	"encoding/binary"
	"fmt"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames, as their first byte. That of a Block has the codec in its low four bits. Parse refuses Proof,
// which a near gateway with a key sends before Open.
const (
	Block Kind = 0x00
	Piece Kind = 0x10
	Begin Kind = 0x11
	Open  Kind = 0x20
	Proof Kind = 0x21
	Fin   Kind = 0x30
	Reset Kind = 0x31
	Grant Kind = 0x40
	Drop  Kind = 0x41
	Speed Kind = 0x50
)

// Reason says why a connection was reset.
type Reason byte

// The values of Reason.
const (
	ReasonReset       Reason = 1
	ReasonUnreachable Reason = 2
	ReasonRefused     Reason = 3
)

// Limits in bytes.
const (
	MaxRaw      = 64 << 10 // of one piece
	maxOverhead = 1024     // by which compression may lengthen a piece
	// MaxHeader is the maximum length of the header of a piece.
	MaxHeader = 1 + 1 + 3 + 3 + sumLen
	// MaxFrame is the maximum length of a frame.
	MaxFrame = MaxHeader + MaxRaw + maxOverhead

	sumLen    = 4
	maxVarint = 5
)

// Frame is one frame. Payload is a part of the bytes that were parsed.
type Frame struct {
	Kind    Kind
	Codec   byte   // of a Block
	Window  byte   // of Begin and Grant, log2 of bytes
	Epoch   byte   // of Grant
	Reason  Reason // of Reset
	Speed   uint32 // of Speed, picoseconds a byte
	RawLen  int    // of Block, Piece and Begin: length before compression
	Sum     uint32 // of Piece, Begin and compressed Block: CRC-32C before compression
	Payload []byte
}

// Parse parses the frame at the start of b, and returns its length. If b holds only a part of the frame, size is larger
// than len(b), the number of bytes needed before another attempt, and f must not be used. Errors wrap ErrMalformed.
func Parse(b []byte) (f Frame, size int, err error) {
	if len(b) == 0 {
		return Frame{}, 1, nil
	}
	p := parser{b: b}
	kind := Kind(p.byte())
	f.Kind = kind
	switch kind {
	case Piece:
		p.coded(&f)
	case Begin:
		f.Window = p.window(MinWindow)
		p.coded(&f)
	case Open, Fin, Drop:
	case Reset:
		f.Reason = Reason(p.byte())
	case Grant:
		f.Window = p.window(0)
		f.Epoch = p.byte()
	case Speed:
		f.Speed = p.varint()
	default:
		if kind>>4 != Block {
			p.fail("kind %02x", byte(kind))
			break
		}
		f.Kind, f.Codec = Block, byte(kind)
		if f.Codec == 0 {
			f.RawLen = p.rawLen()
			f.Payload = p.bytes(f.RawLen)
		} else {
			p.coded(&f)
		}
	}
	if p.err != nil {
		return Frame{}, 0, p.err
	}
	return f, p.at, nil
}

// parser reads zeros beyond the end of b, so that it finds the minimum length of the frame.
type parser struct {
	b     []byte
	at    int
	short bool
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

func (p *parser) byte() byte {
	p.at++
	if p.at > len(p.b) {
		p.short = true
		return 0
	}
	return p.b[p.at-1]
}

func (p *parser) window(least byte) byte {
	w := p.byte()
	if !p.short && !ValidWindow(w) && w != 0 || !p.short && w < least {
		p.fail("a window of 2^%d", w)
	}
	return w
}

// varint reads a number in its shortest form.
func (p *parser) varint() uint32 {
	var v uint64
	for i := range maxVarint {
		c := p.byte()
		if p.short {
			return 0
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			continue
		}
		if c == 0 && i > 0 || v > 1<<32-1 {
			break
		}
		return uint32(v)
	}
	p.fail("a number that is too long")
	return 0
}

func (p *parser) rawLen() int {
	n := p.varint()
	if !p.short && (n < 1 || n > MaxRaw) {
		p.fail("a piece of %d bytes", n)
		return 0
	}
	return int(n)
}

// coded reads the fields that Piece, Begin and compressed Blocks have in common.
func (p *parser) coded(f *Frame) {
	f.RawLen = p.rawLen()
	n := p.varint()
	if !p.short && (n < 1 || n > uint32(f.RawLen)+maxOverhead) {
		p.fail("%d bytes for a piece of %d", n, f.RawLen)
		return
	}
	if sum := p.bytes(sumLen); sum != nil {
		f.Sum = binary.BigEndian.Uint32(sum)
	}
	f.Payload = p.bytes(int(n))
}

func (p *parser) bytes(n int) []byte {
	if p.err != nil {
		return nil
	}
	p.at += n
	if p.short || p.at > len(p.b) {
		p.short = true
		return nil
	}
	return p.b[p.at-n : p.at : p.at]
}

// AppendRaw appends the header of an uncompressed Block, whose n bytes follow.
func AppendRaw(dst []byte, n int) []byte {
	return binary.AppendUvarint(append(dst, byte(Block)), uint64(n))
}

// AppendCoded appends the header of a compressed Block, a Piece or a Begin, whose payload of n bytes follows.
func AppendCoded(dst []byte, f Frame, n int) []byte {
	switch f.Kind {
	case Block:
		dst = append(dst, f.Codec)
	case Begin:
		dst = append(dst, byte(Begin), f.Window)
	default:
		dst = append(dst, byte(f.Kind))
	}
	dst = binary.AppendUvarint(dst, uint64(f.RawLen))
	dst = binary.AppendUvarint(dst, uint64(n))
	return binary.BigEndian.AppendUint32(dst, f.Sum)
}

// AppendPlain appends a frame of another kind.
func AppendPlain(dst []byte, f Frame) []byte {
	dst = append(dst, byte(f.Kind))
	switch f.Kind {
	case Reset:
		dst = append(dst, byte(f.Reason))
	case Grant:
		dst = append(dst, f.Window, f.Epoch)
	case Speed:
		dst = binary.AppendUvarint(dst, uint64(f.Speed))
	}
	return dst
}
