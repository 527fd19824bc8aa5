package lanes

import (
	"slices"
	"sync"

	"github.com/cinch-layer/cinch/codec/proto/history"
)

// Writers are the lanes of a link in which this end seals. Those of requests take their lanes as the reader lets them, those
// of replies have one lane each from the reader.
type Writers struct {
	shared *Shared
	ledger *ledger
	lanes  [MaxLanes]writerLane

	mu      sync.Mutex
	granted [MaxLanes]byte // room of each for requests; 0: it must not be used
	free    []int          // of those, the one that was freed last at the end
	busy    int            // calls that hold lanes
	epoch   int            // how often all was forgotten
	turns   uint64         // requests that named lanes for their replies
	closed  bool
}

// writerLane is one session after another.
type writerLane struct {
	mu      sync.Mutex
	owner   *Out   // that may compress; nil: none
	turn    uint64 // of the last one, of a reply
	session history.Writer
	number  uint64 // of the next message
	room    byte
	held    int64 // bytes of memory
	tooLong int   // messages of so many bytes don't fit the room; 0: nothing is known
}

func (w *Writers) init(l *ledger, s *Shared) { w.ledger, w.shared = l, s }

// Out seals the messages of one direction of a call. Append belongs to one goroutine at a time.
type Out struct {
	w     *Writers
	epoch int // of w when the call began

	mu   sync.Mutex // not held while a message is sealed
	lane int        // -1: none
	over bool

	sealed int64 // guarded by the lane's mu
	given  bool  // the reader has chosen the lane
}

// Request returns what seals the messages of a request. It has a lane from its first message on for which there is one, until Done.
func (w *Writers) Request() *Out {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Out{w: w, lane: -1, epoch: w.epoch}
}

// Assigned returns the lane of the reply, as the request declares it.
type Assigned struct {
	assignment
	named bool
	turn  uint64 // of the request among those that came
}

// Assigned takes the value of Header in a request, as soon as that comes: the reader gives a lane from one call to the next, whichever
// of them is answered first.
func (w *Writers) Assigned(header string) (a Assigned) {
	if a.assignment, a.named = parseAssignment(header); a.named {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.turns++
		a.turn = w.turns
	}
	return a
}

// Reply returns what seals the messages of a reply, in the lane that its request named. It seals none if that named no lane, or if the
// lane has been a later call's: the reader has given this one up.
func (w *Writers) Reply(a Assigned) *Out {
	o := &Out{w: w, lane: -1, given: true}
	if !a.named || !w.occupy() {
		return o
	}
	l := &w.lanes[a.lane]
	l.mu.Lock()
	late := a.turn < l.turn
	if !late {
		o.lane, l.owner, l.turn = a.lane, o, a.turn
		l.widen(a.room)
		if a.anew {
			w.renew(l)
		}
	}
	l.mu.Unlock()
	if late {
		w.release(o)
	}
	return o
}

// occupy counts a call that takes a lane of its reader's choice. It reports false if there are none any more.
func (w *Writers) occupy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.busy++
	}
	return !w.closed
}

// widen takes a lane's room from the reader. l.mu is held.
func (l *writerLane) widen(room byte) {
	if room != l.room {
		l.room, l.tooLong = room, 0
	}
}

// renew has the lane's next message begin a session. l.mu is held.
func (w *Writers) renew(l *writerLane) {
	l.session = history.Writer{}
	w.ledger.resize(&l.held, 0)
}

// Told takes what the response to a call says of lanes: the values of Header, where the request was one of this link's.
func (o *Out) Told(values []string) {
	if o == nil || len(values) != 1 {
		return
	}
	rooms, ok := parseRooms(values[0])
	w := o.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.closed || o.epoch != w.epoch { // the reader has forgotten since what it said
		return
	}
	for i, r := range rooms {
		if r > 0 && w.granted[i] == 0 {
			w.free = slices.Insert(w.free, 0, i)
		}
		w.granted[i] = max(w.granted[i], r) // responses may overtake each other
	}
}

// hold takes a lane, if the call has none and there is one.
func (o *Out) hold() (lane int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || o.given {
		return o.lane
	}
	took := o.lane < 0
	lane, room := o.w.take(o.lane)
	if lane < 0 {
		return -1
	}
	l := &o.w.lanes[lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.lane = lane; took {
		l.owner = o
	}
	l.widen(room)
	return lane
}

// take takes the lane that was freed last, unless the call has one already, and returns it with its room. There is none if it is below 0.
func (w *Writers) take(lane int) (_ int, room byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.free) - 1
	switch {
	case w.closed, lane < 0 && last < 0:
		return -1, 0
	case lane < 0:
		lane = w.free[last]
		w.free = w.free[:last]
		w.busy++
	}
	return lane, w.granted[lane]
}

// Append appends src, sealed in the call's lane, to dst, which must not overlap it. Where that can't be it appends what is to stand in front
// of src as a message of version 1 instead, which is a byte, and reports false. What was sealed has to be sent, or the call must end.
func (o *Out) Append(dst, src []byte) (_ []byte, sealed bool) {
	if len(src) < minSealed || len(src) > history.MaxBytes {
		return append(dst, noMatter), false
	}
	i := o.hold()
	if i < 0 {
		o.w.shared.Tally.Alone.Add(1)
		return append(dst, noLane), false
	}
	l := &o.w.lanes[i]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != o {
		return append(dst, noMatter), false
	}
	defer o.w.shared.turn()()
	whole := false
	defer func() {
		if !whole { // a panic: the session is half changed
			o.w.renew(l)
		}
	}()
	dst, sealed = o.seal(l, dst, src)
	whole = true
	return dst, sealed
}

// minSealed is the minimum length of messages that are compressed in a session, in bytes.
const minSealed = 16

// seal is Append with a lane. l.mu is held.
func (o *Out) seal(l *writerLane, dst, src []byte) (_ []byte, sealed bool) {
	if l.tooLong > 0 && len(src) >= l.tooLong {
		return o.misfit(dst), false
	}
	at := len(dst)
	dst = appendHead(dst, o.lane, l.number)
	body := len(dst)
	dst = l.session.Append(dst, src)
	form := dst[body]
	switch {
	case form == formPlain: // it is no message of Protocol Buffers, and the session is as it was
		return append(dst[:at], noMatter), false
	case int64(l.session.Bytes()+len(src)) > bytesOf(l.room):
		o.w.renew(l)
		if form == formBegin {
			l.tooLong = len(src)
		}
		return o.misfit(dst[:at]), false
	case !o.w.ledger.resize(&l.held, int64(l.session.Bytes())):
		o.w.renew(l)
		return append(dst[:at], noMatter), false
	}
	if form == formBegin {
		o.w.shared.Tally.Begun.Add(1)
	}
	o.w.shared.Tally.Sealed.Add(1)
	l.number++
	o.sealed++
	return dst, true
}

// misfit appends what asks the reader for more room.
func (o *Out) misfit(dst []byte) []byte {
	o.w.shared.Tally.Misfits.Add(1)
	return append(dst, misfit|byte(o.lane+1))
}

// Done ends the call's use of its lane. opened is how many messages the reader has opened, or -1 if that is unknown: unless these are all, the
// lane begins anew.
func (o *Out) Done(opened int64) {
	o.leave(func() int64 { return opened })
}

// Sent is Done for a reply: all of its messages have been sent, or maybe not.
func (o *Out) Sent(all bool) {
	if all {
		o.leave(func() int64 { return o.sealed })
	} else {
		o.Done(-1)
	}
}

func (o *Out) leave(opened func() int64) {
	if o == nil {
		return
	}
	o.mu.Lock()
	i, over := o.lane, o.over
	o.over = true
	o.mu.Unlock()
	if i < 0 || over {
		return
	}
	defer o.w.release(o)
	l := &o.w.lanes[i]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == o {
		if l.owner = nil; o.sealed > 0 && o.sealed != opened() {
			o.w.renew(l)
		}
	}
}

// release counts a lane as free again.
func (w *Writers) release(o *Out) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	switch {
	case w.closed: // while the call took its lane, perhaps
		w.forget()
	case !o.given:
		w.free = append(w.free, o.lane)
	}
}

// Busy reports whether a request holds a lane, so that its session can't be forgotten.
func (w *Writers) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy > 0
}

// Forget forgets all sessions, before the reader does, and reports false if a call holds a lane. What the reader has let us use counts no more, and neither
// does what it says from now on in responses to calls that have begun already.
func (w *Writers) Forget() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy > 0 {
		return false
	}
	w.forget()
	return true
}

// forget is Forget where w.mu is held and no call holds a lane that could seal.
func (w *Writers) forget() {
	w.epoch++
	w.free, w.granted = nil, [MaxLanes]byte{}
	for i := range w.lanes {
		l := &w.lanes[i]
		l.mu.Lock()
		l.owner, l.room, l.tooLong = nil, 0, 0
		w.renew(l)
		l.mu.Unlock()
	}
}

func (w *Writers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.forget()
}
