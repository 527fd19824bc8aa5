package lanes

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec/proto/history"
)

// Readers are the lanes of a link that this end opens. It says how many there are and what they may remember. The lanes of replies
// it also gives to calls.
type Readers struct {
	shared *Shared
	ledger *ledger
	lanes  [MaxLanes]readerLane

	mu     sync.Mutex // held with a lane's mu, behind it
	rooms  [MaxLanes]byte
	given  [MaxLanes]bool // to calls, for their replies
	last   []int          // lanes that were given back, the last one at the end
	closed bool
}

// readerLane is one session after another.
type readerLane struct {
	mu      sync.Mutex
	session history.Reader
	begun   bool   // there is a session
	next    uint64 // number of the message that follows
	held    int64  // bytes of memory: as many as room stands for
}

func (r *Readers) init(l *ledger, s *Shared) { r.ledger, r.shared = l, s }

// In opens the messages of one direction of a call. It belongs to one goroutine at a time, but for Opened.
type In struct {
	r      *Readers
	lane   int // the only one in which messages may come; -1: none, anyLane: any
	text   string
	asked  bool // for another lane, or for more room
	opened atomic.Int64
	over   bool
}

// anyLane is for requests, whose lanes the writer chooses.
const anyLane = MaxLanes

// Request returns what opens the messages of a request.
func (r *Readers) Request() *In { return &In{r: r, lane: anyLane} }

// Reply returns what opens the messages of a reply, with a lane if one is free, until Done.
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

// give takes a lane for a call, the one that was given back last. There is none if it is below 0.
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

// Header is the value of Header for the call's request, or "".
func (i *In) Header() string { return i.text }

// Opened returns the number of messages in lanes that were decompressed.
func (i *In) Opened() int64 {
	if i == nil {
		return 0
	}
	return i.opened.Load()
}

// Rooms is the value of Header for responses; "" where there are no lanes yet.
func (r *Readers) Rooms() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return formatRooms(r.rooms[:])
}

// Open appends the message that m holds to dst, which must not overlap it. It may become most bytes long. Errors wrap ErrOrder, ErrCorrupt or
// ErrTooLarge; dst is returned as it was then.
func (i *In) Open(dst []byte, m Laned, most int) ([]byte, error) {
	switch {
	case i.lane != anyLane && i.lane != m.lane:
		return dst, i.r.refuse("in lane %d, which is not this call's", m.lane)
	case m.RawLen() > most:
		return dst, ErrTooLarge
	}
	l := &i.r.lanes[m.lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	defer i.r.shared.turn()()
	whole := false
	defer func() {
		if !whole { // a panic: the session is half changed
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

// open opens a message if it is its turn. l.mu is held.
func (r *Readers) open(l *readerLane, dst []byte, m Laned, most int) ([]byte, error) {
	switch follows := m.number == l.next && (l.begun || m.begins()); {
	case l.held == 0:
		return nil, r.refuse("in lane %d, which there is not", m.lane)
	case !follows && !(m.begins() && m.number > l.next):
		return nil, r.refuse("number %d in lane %d, where %d follows", m.number, m.lane, l.next)
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

// forget ends the session. l.mu is held.
func (l *readerLane) forget() { l.session, l.begun = history.Reader{}, false }

// settle gives a lane more room when it needs it, and ends a session that takes more than it may have: its writer has not kept to that. l.mu is held.
func (r *Readers) settle(l *readerLane, lane int) {
	size := int64(l.session.Bytes())
	if ahead := size / 4 * growth; ahead > l.held {
		r.widenTo(l, lane, ahead)
	}
	if size <= l.held {
		return
	}
	l.session.Trim() // the writer does not know of that
	if int64(l.session.Bytes()) > l.held {
		l.forget()
	}
}

// widenTo gives a lane room for so many bytes, if there is memory. l.mu is held.
func (r *Readers) widenTo(l *readerLane, lane int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.widen(l, lane, roomOf(bytes, r.rooms[lane]))
}

// widen gives a lane so much room, if there is memory. l.mu and r.mu are held.
func (r *Readers) widen(l *readerLane, lane int, room byte) {
	if !r.closed && room > r.rooms[lane] && r.ledger.resize(&l.held, bytesOf(room)) {
		r.rooms[lane] = room
	}
}

// OpenedAlone takes notice of a message that came without a lane, and became so many bytes long: there may be a lane for the next one.
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

// enlarge gives a lane more room, as a message did not fit.
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

// add adds a lane, if there may be another one.
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

// addLane reports false if there is that lane already. l.mu is held.
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

// Done gives the lane of a reply back. clean says that the reply was read to its end, trailers included: what was sealed in the lane was opened.
// Nothing is opened any more.
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

// Forget forgets the sessions of all lanes, and what it has said of their room, but for lanes that it has given to calls. The writer
// of requests has forgotten them before.
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

// forgetLane forgets one that no call has, or all ways. l.mu is held.
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
