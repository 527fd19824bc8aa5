package mongo

import (
	"encoding/binary"
	"fmt"
)

// Two gateways that have agreed on it in a handshake send messages to each other in frames of
// their own, between those of the protocol: the highest bit of the length tells them apart.
//
//	message:     length(4) form(1) [opcode(4)] raw request answer bytes…
//	dictionary:  length(4) form(1) bytes…
//
//	length  little endian, of the whole frame; bit 31 is set, bit 30 for a dictionary
//	form    bits 0-3: slot of the dictionary, 0 for none
//	        message:    16 bytes are the body as it is, else one zstd frame without its magic
//	                    32 the reply may come in such a frame
//	                    64 the opcode is not OP_MSG, and is here
//	                    128 the session is that of the last frame with one, and is zeros here
//	        dictionary: 16 bytes are the SHA-256 of one that the receiver has, else its content
//	raw     length of the body, a varint
//	request, answer: requestID and responseTo less those of the message frame before in the
//	        same direction, zigzag varints modulo 2^32
//
// Varints are as short as they can be. A dictionary stands for its slot until another one
// does, in that direction of that connection.

const (
	// PairedLengthLen is the number of bytes at the beginning of a frame that tell its length.
	PairedLengthLen = 4
	// MaxPairedHead is the length of the longest head of a frame.
	MaxPairedHead = 4 + 1 + 4 + 4 + 5 + 5
	// PairedSlots is the number of slots, of which the first one means no dictionary.
	PairedSlots = 16

	pairedBit, pairedDictBit = 1 << 31, 1 << 30
	minPaired                = 4 + 1
	maxPairedDict            = 512 << 10 // as large as package codec takes them
)

const (
	formSlot    = 0x0f
	formStored  = 0x10
	formWants   = 0x20
	formOpCode  = 0x40
	formSession = 0x80
)

// Paired is the head of a frame between gateways.
type Paired struct {
	Length     int // of the whole frame
	Head       int // of that, before the bytes
	Slot       int
	Dictionary bool // bytes are a dictionary for the slot
	Known      bool // or rather its hash

	// Of a message:
	Header  Header // with the length of the message
	Stored  bool   // not compressed
	Wants   bool   // its reply may be a frame like this
	Session bool   // the session's identifier was taken out
}

// Numbers are those of the last message in one direction of a connection.
type Numbers struct{ Request, Answer int32 }

// IsPaired reports whether b, of PairedLengthLen bytes or more, begins such a frame.
func IsPaired(b []byte) bool { return b[3]&0x80 != 0 }

// PairedLength reads the first bytes of a frame, and checks its length.
func PairedLength(b []byte) (int, error) {
	word := binary.LittleEndian.Uint32(b)
	n := int(word &^ (pairedBit | pairedDictBit))
	limit := MaxMessage + MaxPairedHead
	if word&pairedDictBit != 0 {
		limit = maxPairedDict + minPaired
	}
	switch {
	case n < minPaired:
		return n, malformed("frame of %d bytes", n)
	case n > limit:
		return n, fmt.Errorf("%w: frame of %d bytes", ErrTooLarge, n)
	}
	return n, nil
}

// ParsePaired reads the head of a frame: b has the whole frame, or its first MaxPairedHead
// bytes. last are the numbers of the message before.
func ParsePaired(b []byte, last Numbers) (p Paired, err error) {
	if p.Length, err = PairedLength(b); err != nil {
		return p, err
	}
	form := b[4]
	p.Slot, p.Head = int(form&formSlot), minPaired
	if p.Dictionary = binary.LittleEndian.Uint32(b)&pairedDictBit != 0; p.Dictionary {
		p.Known = form&formStored != 0
		if form&^(formSlot|formStored) != 0 || p.Slot == 0 {
			return p, malformed("dictionary of form %#x", form)
		}
		return p, nil
	}
	p.Stored, p.Wants, p.Session = form&formStored != 0, form&formWants != 0, form&formSession != 0
	return p, p.parseMessage(b[:min(len(b), p.Length)], form, last)
}

func (p *Paired) parseMessage(b []byte, form byte, last Numbers) error {
	if p.Stored && (p.Slot != 0 || p.Session) {
		return malformed("frame of form %#x", form)
	}
	p.Header.OpCode = OpMsg
	if form&formOpCode != 0 {
		if len(b) < minPaired+4 {
			return malformed("frame without its opcode")
		}
		p.Header.OpCode = OpCode(int32At(b, minPaired))
		p.Head += 4
		switch {
		case p.Header.OpCode == OpCompressed:
			return ErrNested
		case p.Header.OpCode == OpMsg || !known(p.Header.OpCode):
			return fmt.Errorf("%w %d in a frame", ErrOpCode, p.Header.OpCode)
		}
	}
	var v [3]uint32
	for i := range v {
		n := 0
		if v[i], n = shortVarint(b[p.Head:]); n == 0 {
			return malformed("frame with a bad number")
		}
		p.Head += n
	}
	if v[0] > MaxMessage-HeaderLen {
		return fmt.Errorf("%w: %d bytes in a frame", ErrTooLarge, v[0])
	}
	p.Header.Length = HeaderLen + int(v[0])
	p.Header.RequestID = last.Request + unzigzag(v[1])
	p.Header.ResponseTo = last.Answer + unzigzag(v[2])
	if p.Stored && p.Length-p.Head != int(v[0]) {
		return malformed("frame of %d bytes for %d", p.Length-p.Head, v[0])
	}
	return nil
}

// AppendPaired appends the head of a frame for a message. The bytes follow, and then
// FinishPaired.
func AppendPaired(dst []byte, p Paired, last Numbers) []byte {
	form := byte(p.Slot)
	for _, bit := range [...]struct {
		set  bool
		form byte
	}{{p.Stored, formStored}, {p.Wants, formWants}, {p.Header.OpCode != OpMsg, formOpCode}, {p.Session, formSession}} {
		if bit.set {
			form |= bit.form
		}
	}
	dst = append(dst, 0, 0, 0, 0, form)
	if form&formOpCode != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(p.Header.OpCode))
	}
	dst = binary.AppendUvarint(dst, uint64(p.Header.Length-HeaderLen))
	dst = binary.AppendUvarint(dst, uint64(zigzag(p.Header.RequestID-last.Request)))
	return binary.AppendUvarint(dst, uint64(zigzag(p.Header.ResponseTo-last.Answer)))
}

// FinishPaired stores the length of a frame.
func FinishPaired(frame []byte) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame))|pairedBit)
}

// AppendPairedDict appends a frame that gives a slot a dictionary: its content, or its hash
// when the receiver has it.
func AppendPairedDict(dst []byte, slot int, known bool, b []byte) []byte {
	form := byte(slot)
	if known {
		form |= formStored
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(minPaired+len(b))|pairedBit|pairedDictBit)
	return append(append(dst, form), b...)
}

// shortVarint reads a varint of 32 bits. It returns a length of 0 if there is none, or one
// that is longer than it had to be.
func shortVarint(b []byte) (uint32, int) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<32-1 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return uint32(v), n
}

func zigzag(n int32) uint32   { return uint32(n<<1) ^ uint32(n>>31) }
func unzigzag(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }
