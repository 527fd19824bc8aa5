package http2

import (
	"cmp"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// A server limits the streams of a connection (SETTINGS_MAX_CONCURRENT_STREAMS), and a pool limits its
// connections. A client that is alone may use all streams. When the requests of several client connections
// want more streams than there are, the streams are shared, until ten seconds after the last request had to
// wait:
//
//   - A free stream goes to a request of the address with the fewest streams, and there to the connection
//     with the fewest. Requests that have sent only headers come after all others.
//   - One eighth of all streams is kept for clients below their fair share, so that their next request need
//     not wait.
//   - A call whose client has sent only headers loses its stream after silentTime in which others waited.
//   - When a request of a client below its share has waited for shareTime, a client above its share loses the
//     stream whose call has moved nothing for the longest time.
//
// More connections would not help: a client that takes all streams would take those, too, and servers also
// limit connections.
const (
	silentTime = time.Second
	shareTime  = gateway.DefaultStall
	// contendedTime is the time for which streams stay shared after a request had to wait.
	contendedTime = 10 * time.Second
	// sharePeriod is the interval at which waiting requests are checked.
	sharePeriod = 250 * time.Millisecond
	// reservePart is the divisor for the reserve: 1/reservePart of all streams is kept.
	reservePart = 8
	// maxExamined limits the search for each free stream: it looks at the connections in front of the queue and
	// those that joined it last, and at the front requests of each. Every sharePeriod all are examined and
	// sorted.
	maxExamined = 16
	// maxYields limits the calls that lose their streams in one check for being above a share.
	maxYields = 64
)

// Call is a request that could give up its stream. Its methods are called from any goroutine, and must not
// block.
type Call interface {
	Silent() bool    // only headers of the request have arrived, and no message of the reply
	Moved() uint64   // increases with each piece of the request and of the reply
	Yield(why error) // ends the call
}

// Client is a client's connection, for which a pool shares streams and counts resets.
type Client struct {
	address *address
	resets  resetBudget

	// Guarded by the pool's mu.
	common   *member
	isolated *member // in a group for clients that reset much; nil: in none
	departed bool
}

// Slot is a request's use of a stream. With Client and Call set, its zero value is ready for Take; after
// Release it may be reused.
type Slot struct {
	Client *Client // nil: no client
	Call   Call    // nil: the request never has to yield

	conn *Pooled
	err  error // why Take failed

	// Guarded by the pool's mu.
	member       *member
	ready        chan struct{} // closed when conn or err is set; nil: the slot does not wait
	waitingSince time.Time     // begin of the wait
	moved        uint64        // Call.Moved at the last check
	idle         time.Duration // time without movement while others waited
	yielding     bool          // it was told to yield
	prev, next   *Slot         // links of the member's list
}

// origin is a client address in a group.
type origin struct {
	addr     string
	refs     int // members
	present  int // members that are present
	active   int // requests
	yielding int // how many of these were told to yield; set by measure
}

// member is a client's connection in a group. A nil member has no requests.
type member struct {
	group       *group
	origin      *origin
	active      int
	yielding    int     // how many of these were told to yield; set by measure
	first       *Slot   // head of the list of its requests
	queue       []*Slot // its waiting requests
	lowPriority bool    // whether queue[0] had low priority when last checked
	index       int     // index in sharing.present; -1: absent
	seen        time.Time
	departed    bool
}

// sharing is the state with which a group shares its streams. The pool's mu guards it.
type sharing struct {
	origins     map[string]*origin
	present     []*member // members with requests, and others until updateContended removes them
	originCount int       // number of origins with a present member
	waiting     []*member // members with waiting requests

	size, free int64 // streams in all and free ones, as of leastBusy
	contended  bool  // streams are shared
	lastWait   time.Time
	yielding   int // requests that were told to yield and have not ended
	checking   bool
	checkedAt  time.Time
	timer      *time.Timer
}

// join adds a client at an address to a group.
func (g *group) join(addr string) *member {
	o := g.origins[addr]
	if o == nil {
		o = &origin{addr: addr}
		g.origins[addr] = o
	}
	o.refs++
	return &member{group: g, origin: o, index: -1}
}

// leave removes the client from its group.
func (m *member) leave() {
	if m == nil || m.departed {
		return
	}
	m.departed = true
	if m.origin.refs--; m.origin.refs == 0 {
		delete(m.group.origins, m.origin.addr)
	}
	m.group.removePresent(m)
}

// addPresent adds a member that has requests to those present.
func (g *group) addPresent(m *member) {
	m.index = len(g.present)
	g.present = append(g.present, m)
	if m.origin.present++; m.origin.present == 1 {
		g.originCount++
	}
}

// removePresent removes a member from those present, unless it has requests.
func (g *group) removePresent(m *member) {
	if m.index < 0 || m.active > 0 || len(m.queue) > 0 {
		return
	}
	last := len(g.present) - 1
	g.present[m.index] = g.present[last]
	g.present[m.index].index = m.index
	g.present[last] = nil
	g.present, m.index = g.present[:last], -1
	if m.origin.present--; m.origin.present == 0 {
		g.originCount--
	}
}

// memberReleased records that a member has one request less. A member without requests stays present until it
// leaves or updateContended removes it, as it may soon have requests again.
func (g *group) memberReleased(m *member) {
	switch {
	case m.departed:
		g.removePresent(m)
	case g.contended:
		m.seen = time.Now()
	}
}

// dequeue removes a request from the queue.
func (g *group) dequeue(s *Slot) {
	m := s.member
	m.queue = slices.DeleteFunc(m.queue, func(other *Slot) bool { return other == s })
	if len(m.queue) == 0 {
		g.waiting = slices.DeleteFunc(g.waiting, func(other *member) bool { return other == m })
	}
	g.memberReleased(m)
}

// wake ends the wait of a request that was dequeued. It must come after all other uses of the slot.
func (s *Slot) wake() {
	ready := s.ready
	s.ready = nil
	close(ready) // from now on the request owns the slot, and may reuse it
}

// assign assigns a connection to a request.
func (g *group) assign(s *Slot, conn *Pooled) {
	m := s.member
	s.conn = conn
	conn.active.Add(1)
	m.active++
	m.origin.active++
	s.moved, s.idle, s.yielding = 0, 0, false
	s.prev, s.next = nil, m.first
	if s.next != nil {
		s.next.prev = s
	}
	m.first = s
}

// failAll fails all waiting requests.
func (g *group) failAll(err error) {
	for len(g.waiting) > 0 {
		s := g.waiting[0].queue[0]
		s.err = err
		g.dequeue(s)
		s.wake()
	}
}

// assignFree gives free streams to waiting requests.
func (g *group) assignFree() {
	for len(g.waiting) > 0 {
		best, room := g.leastBusy()
		if best == nil {
			g.openIfBusy(best, room)
		}
		if room <= 0 {
			return
		}
		s := g.next()
		if s == nil {
			return
		}
		g.assign(s, best)
		g.dequeue(s) // after assign, as dequeue removes a departed member that has no requests
		s.wake()
	}
}

// next returns the request that gets the next stream, or nil if none may have it.
func (g *group) next() (best *Slot) {
	now := time.Now()
	front := min(len(g.waiting), maxExamined)
	last := max(front, len(g.waiting)-maxExamined)
	for _, some := range [][]*member{g.waiting[:front], g.waiting[last:]} {
		for _, m := range some {
			s := m.next()
			m.lowPriority = s.isLowPriority(now)
			if g.canTake(m, m.lowPriority) && (best == nil || compare(s, best) < 0) {
				best = s
			}
		}
	}
	return best
}

// compare orders requests by their claim to a stream. It uses the members' lowPriority for both.
func compare(s, other *Slot) int {
	if low := s.member.lowPriority; low != other.member.lowPriority {
		if low {
			return 1
		}
		return -1
	}
	return cmp.Or(
		cmp.Compare(s.member.origin.active, other.member.origin.active),
		cmp.Compare(s.member.active, other.member.active),
		s.waitingSince.Compare(other.waitingSince),
	)
}

// order sorts the waiting members by the claim of their first requests, the highest first.
func (g *group) order(now time.Time) {
	for _, m := range g.waiting {
		m.order()
		m.lowPriority = m.queue[0].isLowPriority(now)
	}
	slices.SortStableFunc(g.waiting, func(a, b *member) int { return compare(a.queue[0], b.queue[0]) })
}

// next returns the first of a member's requests that is not silent, or else the first. It looks at a few
// only, since it runs for every request.
func (m *member) next() *Slot {
	for _, s := range m.queue[:min(len(m.queue), maxExamined)] {
		if !s.isSilent() {
			return s
		}
	}
	return m.queue[0]
}

// order puts requests that are not silent in front of the others.
func (m *member) order() {
	var silent []*Slot
	front := m.queue[:0]
	for _, s := range m.queue {
		if s.isSilent() {
			silent = append(silent, s)
		} else {
			front = append(front, s)
		}
	}
	m.queue = append(front, silent...)
}

func (s *Slot) isSilent() bool { return s.Call != nil && s.Call.Silent() }

// isLowPriority reports whether a waiting request has less of a claim than others: only its headers have
// arrived, and it has waited for less than shareTime.
func (s *Slot) isLowPriority(now time.Time) bool {
	return now.Sub(s.waitingSince) < shareTime && s.isSilent()
}

// canTake reports whether a member may have a free stream.
func (g *group) canTake(m *member, lowPriority bool) bool {
	return !g.contended || g.free > g.size/reservePart || !lowPriority && g.isBelow(m)
}

// share returns the fair share of an address in streams.
func (g *group) share() int { return max(1, int(g.size)/max(1, g.originCount)) }

// shareOf returns the fair share of a member in streams.
func (g *group) shareOf(m *member) int { return max(1, g.share()/max(1, m.origin.present)) }

// isBelow reports whether a member and its address have less than their shares.
func (g *group) isBelow(m *member) bool {
	return m.origin.active < g.share() && m.active < g.shareOf(m)
}

// startChecks starts the periodic check of waiting requests. While a connection is being opened there is
// nothing to check.
func (g *group) startChecks() {
	if len(g.waiting) == 0 || g.dialing || g.checking {
		return
	}
	g.checking, g.checkedAt = true, time.Now()
	if g.timer == nil {
		g.timer = time.AfterFunc(sharePeriod, g.check)
	} else {
		g.timer.Reset(sharePeriod)
	}
	g.updateContended(g.checkedAt)
}

// updateContended sets contended, which tells whether streams are shared among clients. While they are,
// members without requests count until contendedTime after their last request.
func (g *group) updateContended(now time.Time) {
	for i := len(g.present) - 1; i >= 0; i-- {
		if m := g.present[i]; !g.contended || now.Sub(m.seen) >= contendedTime {
			g.removePresent(m)
		}
	}
	if len(g.waiting) > 0 && !g.dialing && len(g.present) > 1 {
		g.contended, g.lastWait = true, now
	}
	g.contended = g.contended && len(g.present) > 1 && now.Sub(g.lastWait) < contendedTime
}

// yield is a call that is to lose its stream, and why.
type yield struct {
	call Call
	why  error
}

// check checks waiting requests, and schedules the next check while requests wait or streams are shared. mu
// must not be held.
func (g *group) check() {
	defer gateway.CatchPanic(g.Log, g.Stats, nil)
	for _, y := range g.checkOnce() {
		y.call.Yield(y.why)
	}
}

func (g *group) checkOnce() (lose []yield) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	passed := min(now.Sub(g.checkedAt), 2*sharePeriod) // leaves out time for which the process was suspended
	g.checkedAt = now
	g.updateContended(now)
	g.order(now)
	g.assignFree()
	lose = g.reclaim(now, passed)
	if g.checking = len(g.waiting) > 0 && !g.dialing || g.contended; g.checking {
		g.timer.Reset(sharePeriod)
	}
	return lose
}

// reclaim chooses the calls that are to lose their streams to waiting requests.
func (g *group) reclaim(now time.Time, passed time.Duration) (lose []yield) {
	if !g.contended || len(g.waiting) == 0 {
		return nil
	}
	cut := func(s *Slot, why error) {
		s.yielding = true
		g.yielding++
		s.member.yielding++
		s.member.origin.yielding++
		lose = append(lose, yield{s.Call, why})
	}
	idle, silent := g.measure(passed)
	slices.SortStableFunc(silent, func(a, b *Slot) int { return cmp.Compare(b.member.origin.active, a.member.origin.active) })
	pressing := 0
	for _, m := range g.waiting {
		for _, s := range m.queue {
			if !s.isLowPriority(now) {
				pressing++
			}
		}
	}
	if pressing > 0 {
		due := pressing + int(g.size/reservePart-g.free) - g.yielding
		for _, s := range silent[:max(0, min(due, len(silent)))] {
			cut(s, ErrSilent)
		}
	}
	due := g.due(now) - g.yielding
	slices.SortStableFunc(idle, func(a, b *Slot) int { return cmp.Compare(b.idle, a.idle) })
	for _, s := range idle {
		if due <= 0 || len(lose) >= maxYields+len(silent) {
			break
		}
		if !s.yielding && g.isAbove(s.member) {
			cut(s, ErrShare)
			due--
		}
	}
	return lose
}

// measure updates which calls have moved since the last check. It returns all calls that could yield, and
// those of them that are silent.
func (g *group) measure(passed time.Duration) (all, silent []*Slot) {
	for _, m := range g.present {
		m.yielding, m.origin.yielding = 0, 0
	}
	for _, m := range g.present {
		alone := len(g.waiting) == 1 && g.waiting[0] == m // no call loses its stream to requests of its own connection
		for s := m.first; s != nil; s = s.next {
			if s.yielding {
				m.yielding++
				m.origin.yielding++
			}
			if s.Call == nil || s.yielding {
				continue
			}
			if moved := s.Call.Moved(); moved != s.moved || alone {
				s.moved, s.idle = moved, 0
			} else {
				s.idle += passed
			}
			if alone {
				continue
			}
			all = append(all, s)
			if s.idle >= silentTime && s.Call.Silent() {
				silent = append(silent, s)
			}
		}
	}
	return all, silent
}

// due counts the requests of members below their shares that have waited for shareTime.
func (g *group) due(now time.Time) (n int) {
	for _, m := range g.waiting {
		if !g.isBelow(m) {
			continue
		}
		late := 0
		for _, s := range m.queue {
			if now.Sub(s.waitingSince) >= shareTime {
				late++
			}
		}
		n += min(late, g.shareOf(m)-m.active)
	}
	return n
}

// isAbove reports whether a member's address has more than its share, or, if there is only one address, the
// member has.
func (g *group) isAbove(m *member) bool {
	return m.origin.active-m.origin.yielding > g.share() || g.originCount == 1 && m.active-m.yielding > g.shareOf(m)
}
