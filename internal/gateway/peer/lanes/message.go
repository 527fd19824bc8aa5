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

// The first byte of a message tells what follows.
//
//	| lane, from 1 | number | message of cinch-proto, version 2 |
//	  1              varint
//	| 00, 40 or 80 + lane, from 1 | message of cinch-proto, version 1 |
const (
	noLane   = 0x00 // none was free
	noMatter = 0x40 // none was wanted
	misfit   = 0x80 // the lane has too little room
)

// The forms of section 8 of docs/PROTO.md.
const (
	formPlain = 0x20
	formBegin = 0x21
	formNext  = 0x22
)

// What is wrong with messages that come.
var (
	// ErrOrder: it is not its turn in its lane. The lane is as it was.
	ErrOrder = errors.New("a message came out of its order")
	// ErrCorrupt: it is not what Append makes.
	ErrCorrupt = errors.New("corrupt message in a lane")
	// ErrTooLarge: it would be longer than the limit. The lane is as it was.
	ErrTooLarge = history.ErrTooLarge
)

// Laned is a message as it comes. Its bytes are those that were parsed.
type Laned struct {
	Alone bool // by itself, without a lane: Body is of version 1
	Body  []byte

	lane   int // from 0; alone: where it did not fit, or -1
	number uint64
	wanted bool // alone: its sender would have liked a lane
}

// Parse takes a message apart.
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

// RawLen returns the declared length of a message in a lane once it is decompressed, in bytes.
func (m *Laned) RawLen() int { return history.RawLen(m.Body) }

func (m *Laned) begins() bool { return m.Body[0] == formBegin }

// appendHead appends what stands in front of a message in a lane.
func appendHead(dst []byte, lane int, number uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(lane+1)), number)
}
