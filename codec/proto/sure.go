package proto

import (
	"github.com/cinch-layer/cinch/codec"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// Most messages with many similar records are shorter as columns than by the general codec alone, and trying
// both takes half as long again. So both are tried only in doubt: if the model has found little, if a part of
// the message contradicts, and now and then, since a part does not show everything.

// isShorter reports whether columns, packed to that many bytes, are shorter than the message by the general
// codec alone. If not, e.whole has the latter.
func (e *Encoder) isShorter(src []byte, packed int) bool {
	sure := e.modelIsSure() && e.partIsLonger(src, packed)
	if sure && e.trust.spend() {
		return true
	}
	e.whole = e.appendPlain(e.whole[:0], src)
	shorter := packed < len(e.whole)
	if sure {
		e.trust.learn(shorter)
	}
	return shorter
}

// Costs of columns compared with the general codec alone, in bytes: frames, the length of a column, and one
// for this many bytes of text.
const (
	lostOnce   = 60
	lostColumn = 2
	lostOfText = 32
)

// modelIsSure reports whether columns are shorter according to the model's counts. They save two bytes for each new
// value in a message, since the general codec has to code the tags and lengths around it unless these are nearly the
// same as before. They save half a byte for each named value, since a match of the general codec often ends there.
// Named values count only up to twice the number of new ones: with little that is new, the general codec may match
// everything at once. It may always match numbers, so their columns count as lost.
func (e *Encoder) modelIsSure() bool {
	won := 2*e.new + min(e.named, 2*e.new)/2
	lost := lostOnce + len(e.defs)
	for i := range e.nodes {
		text := e.nodes[i].wire == pbwire.BytesType
		for col, c := range e.cols[i] {
			switch {
			case len(c) == 0:
			case col < colKinds:
				lost += lostColumn
			case text:
				lost += lostColumn + len(c)/lostOfText
			default:
				lost += lostColumn + len(c)
			}
		}
	}
	return won > lost
}

// The compressed part is this fraction of the message, within limits. Compressed alone, a part is longer than
// its share of the whole message, by an unknown factor.
const (
	partOf     = 32
	leastPart  = 4 << 10
	mostPart   = 64 << 10
	partMargin = 1.3
)

// partIsLonger reports whether the general codec makes a part of the message longer than its share of the
// columns, packed to that many bytes. It returns false for short messages: these can as quickly be tried
// whole.
func (e *Encoder) partIsLonger(src []byte, packed int) bool {
	n := min(max(len(src)/partOf, leastPart), mostPart)
	if len(src) < 4*n {
		return false
	}
	at := (len(src) - n) / 2
	s := codec.Setting{Codec: e.options.Setting.Codec, Level: e.level(len(src))}
	out, err := e.options.Engine.Compress(e.whole[:0], src[at:at+n], s, nil)
	e.whole = out
	share := float64(packed) * float64(n) / float64(len(src))
	return err == nil && float64(len(out)) > partMargin*share
}

// Of the messages that are surely shorter, one in tryEvery is tried nevertheless. After one that was not
// shorter all are tried, until tryAfter were shorter.
const (
	tryEvery = 32
	tryAfter = 256
)

// trust is the number of messages that are surely shorter and need not be tried. If it is 0 or less, it is
// minus the number of messages that still have to be tried.
type trust int

// spend reports whether the next message need not be tried.
func (t *trust) spend() bool {
	if *t <= 0 {
		return false
	}
	*t--
	return true
}

// learn records whether a message that was tried was shorter.
func (t *trust) learn(shorter bool) {
	switch {
	case !shorter:
		*t = -tryAfter
	case *t < 0:
		*t++
	default:
		*t = tryEvery - 1
	}
}
