package lanes

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec/proto/history"
)

// Readers are the lanes in which one end of a link decompresses. This end determines how many there are, and their
// rooms. It also gives the lanes for replies to calls.
type Readers struct {
	shared *Shared
	ledger *ledger
	lanes  [MaxLanes]readerLane

	mu     sync.Mutex // locked after a lane's mu
	rooms  [MaxLanes]byte
	given  [MaxLanes]bool // lanes that calls hold for their replies
	last   []int          // free lanes, the one freed last at the end
	closed bool
}

// readerLane is a lane: one session after another.
type readerLane struct {
	mu      sync.Mutex
	session history.Reader
	begun   bool   // there is a session
	next    uint64 // number of the next message
	held    int64  // memory in bytes: that of the lane's room
}

func (r *Readers) init(l *ledger, s *Shared) { r.ledger, r.shared = l, s }

// In decompresses the messages of one direction of a call. Only one goroutine at a time may use it, except for Opened.
type In struct {
	r      *Readers
	lane   int    // the only lane that messages may be in; -1: none, anyLane: any
	text   string // value of Header
	asked  bool   // a message has asked for a lane or for room
	opened atomic.Int64
	over   bool
}

// anyLane is the lane of requests, since their writer chooses the lanes.
const anyLane = MaxLanes

// Request returns an In for the messages of a request.
func (r *Readers) Request() *In { return &In{r: r, lane: anyLane} }

// Reply returns an In for the messages of a reply. If a lane is free it holds that lane until Done.
func (r *Readers) Reply() *In {
	i := &In{r: r, lane: -1}
	lane, room := r.give()
	if lane < 0 {
		return i
	}
	l := &r.lanes[lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	i.lane, i.text = lane, assignment{lane: lane, room: room, anew: !l.begun}.String()
	return i
}

// give takes the lane that was freed last, for a call; -1 if none is free.
func (r *Readers) give() (lane int, room byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.last); n > 0 {
		lane, r.last = r.last[n-1], r.last[:n-1]
		r.given[lane] = true
		return lane, r.rooms[lane]
	}
	return -1, 0
}

// Header returns the value of Header for the call's request, or "".
func (i *In) Header() string { return i.text }

// Opened returns the number of messages in lanes that were decompressed.
func (i *In) Opened() int64 {
	if i == nil {
		return 0
	}
	return i.opened.Load()
}

// Rooms returns the value of Header for responses; "" if there are no lanes yet.
func (r *Readers) Rooms() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return formatRooms(r.rooms[:])
}

// Open appends the decompressed message m, of at most most bytes, to dst, which must not overlap m. On an error, which
// wraps ErrOrder, ErrCorrupt or ErrTooLarge, it returns dst unchanged.
func (i *In) Open(dst []byte, m Laned, most int) ([]byte, error) {
	switch {
	case i.lane != anyLane && i.lane != m.lane:
		return dst, i.r.refuse("lane %d is not of this call", m.lane)
	case m.RawLen() > most:
		return dst, ErrTooLarge
	}
	l := &i.r.lanes[m.lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	defer i.r.shared.turn()()
	whole := false
	defer func() {
		if !whole { // a panic: the session may be damaged
			l.forget()
		}
	}()
	out, err := i.r.open(l, dst, m, most)
	if err == nil {
		i.opened.Add(1)
		i.r.settle(l, m.lane)
	} else {
		out = dst
	}
	whole = true
	return out, err
}

func (r *Readers) refuse(format string, args ...any) error {
	r.shared.Tally.Refused.Add(1)
	return fmt.Errorf("%w: "+format, append([]any{ErrOrder}, args...)...)
}

// open decompresses a message if it is in order. l.mu must be held.
func (r *Readers) open(l *readerLane, dst []byte, m Laned, most int) ([]byte, error) {
	switch follows := m.number == l.next && (l.begun || m.begins()); {
	case l.held == 0:
		return nil, r.refuse("unknown lane %d", m.lane)
	case !follows && !(m.begins() && m.number > l.next):
		return nil, r.refuse("number %d in lane %d instead of %d", m.number, m.lane, l.next)
	}
	out, err := l.session.Append(dst, m.Body, most)
	if err != nil {
		l.forget()
		r.shared.Tally.Broken.Add(1)
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	l.begun, l.next = true, m.number+1
	r.shared.Tally.Opened.Add(1)
	return out, nil
}

// forget drops the session. l.mu must be held.
func (l *readerLane) forget() { l.session, l.begun = history.Reader{}, false }

// settle gives a lane more room if its session has grown. It drops a session that exceeds the room, which the writer
// must not cause. l.mu must be held.
func (r *Readers) settle(l *readerLane, lane int) {
	size := int64(l.session.Bytes())
	if ahead := size / 4 * growth; ahead > l.held {
		r.widenTo(l, lane, ahead)
	}
	if size <= l.held {
		return
	}
	l.session.Trim() // of memory that only the reader needs
	if int64(l.session.Bytes()) > l.held {
		l.forget()
	}
}

// widenTo gives a lane room for so many bytes, if there is memory. l.mu must be held.
func (r *Readers) widenTo(l *readerLane, lane int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.widen(l, lane, roomOf(bytes, r.rooms[lane]))
}

// widen gives a lane a larger room, if there is memory. l.mu and r.mu must be held.
func (r *Readers) widen(l *readerLane, lane int, room byte) {
	if !r.closed && room > r.rooms[lane] && r.ledger.resize(&l.held, bytesOf(room)) {
		r.rooms[lane] = room
	}
}

// OpenedAlone records a received message in no lane, of size bytes after decompression. If it asks for a lane or room,
// and there is memory, the next response offers it.
func (i *In) OpenedAlone(m Laned, size int) {
	if !m.wanted || i.asked || size < minSealed || size > history.MaxBytes {
		return
	}
	i.asked = true
	if m.lane >= 0 {
		i.r.enlarge(m.lane, size)
		return
	}
	i.r.add(size)
}

// enlarge gives a lane more room, because a message of size bytes did not fit.
func (r *Readers) enlarge(lane, size int) {
	l := &r.lanes[lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if room := r.rooms[lane]; room > 0 {
		r.widen(l, lane, min(max(room+2, roomFor(size)), mostRoom))
	}
}

// add adds a lane with room for messages of size bytes, unless there are MaxLanes.
func (r *Readers) add(size int) {
	for lane := range r.lanes {
		l := &r.lanes[lane]
		l.mu.Lock()
		added := r.addLane(l, lane, roomFor(size))
		l.mu.Unlock()
		if added {
			return
		}
	}
}

// addLane adds a lane, if there is memory. It returns false if that lane exists already. l.mu must be held.
func (r *Readers) addLane(l *readerLane, lane int, room byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms[lane] > 0 {
		return false
	}
	if r.widen(l, lane, room); r.rooms[lane] > 0 && !r.given[lane] {
		r.last = append([]int{lane}, r.last...)
	}
	return true
}

// Done frees the lane of a reply. clean says that the reply was read to its end, trailers included, so that all its
// messages were decompressed. Open must not be called after Done.
func (i *In) Done(clean bool) {
	if i == nil || i.lane < 0 || i.lane == anyLane || i.over {
		return
	}
	i.over = true
	r, l := i.r, &i.r.lanes[i.lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	if !clean {
		l.forget()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given[i.lane] = false
	if r.rooms[i.lane] > 0 {
		r.last = append(r.last, i.lane)
	}
}

// Forget drops all lanes, except those that calls hold for their replies. It is called when the peer has dropped its
// sessions for requests.
func (r *Readers) Forget() { r.forget(false) }

func (r *Readers) close() { r.forget(true) }

func (r *Readers) forget(all bool) {
	r.mu.Lock()
	r.closed = r.closed || all
	r.mu.Unlock()
	for lane := range r.lanes {
		l := &r.lanes[lane]
		l.mu.Lock()
		r.forgetLane(l, lane, all)
		l.mu.Unlock()
	}
}

// forgetLane drops a lane, unless a call holds it and all is false. l.mu must be held.
func (r *Readers) forgetLane(l *readerLane, lane int, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given[lane] && !all {
		return
	}
	l.forget()
	r.ledger.resize(&l.held, 0)
	r.rooms[lane] = 0
	for at, other := range r.last {
		if other == lane {
			r.last = append(r.last[:at], r.last[at+1:]...)
			break
		}
	}
}
