package lanes

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec/proto/history"
)

// Encoding is the value of grpc-encoding for calls whose messages may go in lanes.
const Encoding = "cinch-lanes"

// MaxLanes is the maximum number of lanes in a direction of a link.
const MaxLanes = 8

// The first byte of a message determines its form:
//
//	| lane, from 1 | number | message of cinch-proto, version 2 |
//	  1              varint
//	| 00, 40 or 80 + lane, from 1 | message of cinch-proto, version 1 |
const (
	noLane   = 0x00 // no lane was free
	noMatter = 0x40 // in no lane for another reason, which more lanes or room would not change
	misfit   = 0x80 // the lane has too little room
)

// The forms of section 8 of docs/PROTO.md.
const (
	formPlain = 0x20
	formBegin = 0x21
	formNext  = 0x22
)

// Errors of received messages.
var (
	// ErrOrder: the message is out of order in its lane. The lane has not changed.
	ErrOrder = errors.New("a message came out of its order")
	// ErrCorrupt: the message is malformed or damaged.
	ErrCorrupt = errors.New("corrupt message in a lane")
	// ErrTooLarge: the decompressed message would exceed the limit. The lane has not changed.
	ErrTooLarge = history.ErrTooLarge
)

// Laned is a parsed message. Body is a part of the bytes that were parsed.
type Laned struct {
	Alone bool // in no lane: Body is a message of version 1
	Body  []byte

	lane   int // from 0; if Alone the lane with too little room, or -1
	number uint64
	wanted bool // if Alone: the sender asks for a lane, or for more room
}

// Parse parses the header of a message. Errors wrap ErrCorrupt.
func Parse(b []byte) (m Laned, err error) {
	if len(b) == 0 {
		return m, fmt.Errorf("%w: empty", ErrCorrupt)
	}
	first := b[0]
	m = Laned{Body: b[1:], lane: int(first&^misfit) - 1}
	switch {
	case first == noLane, first == noMatter:
		m.Alone, m.wanted, m.lane = true, first == noLane, -1
		return m, nil
	case first&^misfit == 0 || m.lane >= MaxLanes:
		return m, fmt.Errorf("%w: begins with %02x", ErrCorrupt, first)
	case first&misfit != 0:
		m.Alone, m.wanted = true, true
		return m, nil
	}
	number, n := binary.Uvarint(m.Body)
	if n <= 0 || n > 1 && m.Body[n-1] == 0 {
		return m, fmt.Errorf("%w: no number", ErrCorrupt)
	}
	m.number, m.Body = number, m.Body[n:]
	if len(m.Body) == 0 || m.Body[0] != formBegin && m.Body[0] != formNext {
		return m, fmt.Errorf("%w: no message of a session", ErrCorrupt)
	}
	return m, nil
}

// RawLen returns the declared length of a message in a lane after decompression, in bytes.
func (m *Laned) RawLen() int { return history.RawLen(m.Body) }

func (m *Laned) begins() bool { return m.Body[0] == formBegin }

// appendHead appends the header of a message in a lane.
func appendHead(dst []byte, lane int, number uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(lane+1)), number)
}
