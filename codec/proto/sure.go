package proto

import "github.com/cinch-layer/cinch/codec"

// Most messages of many alike records are shorter as columns than the general codec alone makes them, and to try both
// takes half as long again. So it is tried where that is in doubt: where the model has found little, where a part of the
// message says otherwise, and now and then, since a part does not show all.

// isShorter tells whether columns, which have become so many bytes, are shorter than what the general codec makes of the
// message alone. If they are not, e.whole has that.
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

// What columns lose against the general codec alone, in bytes: frames, the length of a column, and of so many bytes of
// text one.
const (
	lostOnce   = 60
	lostColumn = 2
	lostOfText = 32
)

// modelIsSure tells whether columns are shorter by what the model has counted. What is new within a message makes the general
// codec spell the tags and lengths around it, unless it is nearly what was there before, and what is named is often not where it goes
// on: that is two bytes and half a one. Without much that is new it may find anything at once, numbers always.
func (e *Encoder) modelIsSure() bool {
	won := 2*e.new + min(e.named, 2*e.new)/2
	lost := lostOnce + len(e.defs)
	for i := range e.nodes {
		text := e.nodes[i].wire == wireBytes
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

// The part that is compressed is one of so many of the message, within bounds. By itself it becomes longer than its share of the
// whole message would, by how much is not known.
const (
	partOf     = 32
	leastPart  = 4 << 10
	mostPart   = 64 << 10
	partMargin = 1.3
)

// partIsLonger tells whether the general codec makes more of a part of the message than its share of the columns, which have
// become so many bytes. For short messages it says no: they are as quickly tried whole.
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

// Of the messages that are surely shorter one in tryEvery is tried nevertheless. After one that was not shorter all are, until
// tryAfter were.
const (
	tryEvery = 32
	tryAfter = 256
)

// trust is how many messages that are surely shorter need not be tried, or 0 and less: how many more have to be.
type trust int

// spend reports whether the next message need not be tried.
func (t *trust) spend() bool {
	if *t <= 0 {
		return false
	}
	*t--
	return true
}

// learn takes whether one that was tried was shorter.
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
