package lanes

import (
	"slices"
	"sync"

	"github.com/cinch-layer/cinch/codec/proto/history"
)

// Writers are the lanes in which one end of a link compresses. The reader at the other end determines how many there
// are for requests, and names the lane for each reply.
type Writers struct {
	shared *Shared
	ledger *ledger
	lanes  [MaxLanes]writerLane

	mu      sync.Mutex
	granted [MaxLanes]byte // room of each lane for requests; 0: it must not be used
	free    []int          // free lanes for requests, the one freed last at the end
	busy    int            // number of calls that hold lanes
	epoch   int            // number of calls of forget
	turns   uint64         // number of requests that named a lane for the reply
	closed  bool
}

// writerLane is a lane: one session after another.
type writerLane struct {
	mu      sync.Mutex
	owner   *Out   // the only one that may compress in the lane; nil: none
	turn    uint64 // Assigned.turn of the latest owner
	session history.Writer
	number  uint64 // of the next message
	room    byte
	held    int64 // memory in bytes
	tooLong int   // length from which on messages don't fit the room; 0: unknown
}

func (w *Writers) init(l *ledger, s *Shared) { w.ledger, w.shared = l, s }

// Out compresses the messages of one direction of a call. Only one goroutine at a time may call Append.
type Out struct {
	w     *Writers
	epoch int // of w when the call began

	mu   sync.Mutex // not held while a message is compressed
	lane int        // -1: none
	over bool

	sealed int64 // messages compressed in the lane; guarded by its mu
	given  bool  // the reader has chosen the lane
}

// Request returns an Out for the messages of a request. From the first message for which a lane is free it holds that
// lane, until Done.
func (w *Writers) Request() *Out {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Out{w: w, lane: -1, epoch: w.epoch}
}

// Assigned returns the lane of the reply, as the request declares it.
type Assigned struct {
	assignment
	named bool
	turn  uint64 // number of the request, in order of arrival
}

// Assigned parses the value of Header of a request. It must be called when the request arrives, since the reader may
// give the lane to a later call before this one is answered, and the order of requests tells which call has it.
func (w *Writers) Assigned(header string) (a Assigned) {
	if a.assignment, a.named = parseAssignment(header); a.named {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.turns++
		a.turn = w.turns
	}
	return a
}

// Reply returns an Out for the messages of a reply, with the lane that its request named. It has no lane if the request
// named none, or if a later request named the same one: then the reader has given this call up.
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

// occupy counts a call that holds a lane chosen by the reader. It returns false if the link has ended.
func (w *Writers) occupy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.busy++
	}
	return !w.closed
}

// widen records a lane's room, as the reader has declared it. l.mu must be held.
func (l *writerLane) widen(room byte) {
	if room != l.room {
		l.room, l.tooLong = room, 0
	}
}

// renew drops the session, so that the lane's next message begins a new one. l.mu must be held.
func (w *Writers) renew(l *writerLane) {
	l.session = history.Writer{}
	w.ledger.resize(&l.held, 0)
}

// Told records the values of Header in the response to a request.
func (o *Out) Told(values []string) {
	if o == nil || len(values) != 1 {
		return
	}
	rooms, ok := parseRooms(values[0])
	w := o.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.closed || o.epoch != w.epoch { // declared before the reader dropped its lanes
		return
	}
	for i, r := range rooms {
		if r > 0 && w.granted[i] == 0 {
			w.free = slices.Insert(w.free, 0, i)
		}
		w.granted[i] = max(w.granted[i], r) // responses may overtake each other
	}
}

// hold takes a lane if the call has none and one is free. It returns the call's lane, or -1.
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

// take returns lane with its room, or if lane is -1 the lane that was freed last; -1 if none is free.
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

// Append appends src, compressed in the call's lane, to dst, which must not overlap it. The result must be sent, or the
// call must end. If there is no lane for src, Append appends only the byte that precedes a message of version 1, and
// returns false; the caller appends that message.
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
		if !whole { // a panic: the session may be damaged
			o.w.renew(l)
		}
	}()
	dst, sealed = o.seal(l, dst, src)
	whole = true
	return dst, sealed
}

// minSealed is the minimum length of messages that are compressed in a session, in bytes.
const minSealed = 16

// seal is Append with a lane. l.mu must be held.
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
	case form == formPlain: // not a Protocol Buffers message; the session has not changed
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

// misfit appends the byte that asks the reader for more room in the lane.
func (o *Out) misfit(dst []byte) []byte {
	o.w.shared.Tally.Misfits.Add(1)
	return append(dst, misfit|byte(o.lane+1))
}

// Done frees the call's lane. opened is how many of its messages the reader has decompressed, or -1 if that is unknown.
// Unless these are all, the lane's next message begins a new session.
func (o *Out) Done(opened int64) {
	o.leave(func() int64 { return opened })
}

// Sent is Done for a reply. all says whether all of its messages were sent.
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

// release counts a call that held a lane as ended, and frees a lane for requests.
func (w *Writers) release(o *Out) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	switch {
	case w.closed: // perhaps while the call took its lane
		w.forget()
	case !o.given:
		w.free = append(w.free, o.lane)
	}
}

// Busy reports whether a call holds a lane, so that Forget would return false.
func (w *Writers) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy > 0
}

// Forget drops all sessions, before the reader does, or returns false if a call holds a lane. The lanes that the reader
// has declared for requests, also in later responses to calls that have begun already, are not used any more.
func (w *Writers) Forget() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy > 0 {
		return false
	}
	w.forget()
	return true
}

// forget is Forget while no call can compress. w.mu must be held.
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
