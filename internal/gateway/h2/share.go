package h2

import (
	"cmp"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// A server takes so many streams on a connection (SETTINGS_MAX_CONCURRENT_STREAMS), and a pool has so many connections. A client that is
// alone may use all streams that there are. When requests of several clients' connections want more than there are, until ten seconds
// after the last had to wait:
//
//   - A stream that becomes free goes to a request of the address that has the fewest, and of its connections the one that has the fewest.
//     Requests of which nothing has come but headers are behind the others.
//   - An eighth of all is kept for those that have less than their fair share: then their next request need not wait.
//   - A call whose client has sent nothing but headers loses its stream after silentTime in which others waited.
//   - When a request of a client below its share has waited for shareTime, a client above its own loses the stream whose call has moved
//     nothing for the longest time.
//
// More connections would not do: a client that takes all streams takes those, too, and servers limit connections as well.
const (
	silentTime = time.Second
	shareTime  = gateway.DefaultStall
	// contendedTime is for how long streams are shared after the last request had to wait.
	contendedTime = 10 * time.Second
	// sharePeriod is the time between two looks at requests that wait.
	sharePeriod = 250 * time.Millisecond
	// reservePart is the part of all streams that is kept: one in so many.
	reservePart = 8
	// maxLooks limits what is looked at for each stream that is free: the connections that wait in front and those that wait since last, and of
	// each its requests in front. Each sharePeriod all are looked at and put in order.
	maxLooks = 16
	// maxYields limits the calls that lose their streams in one look for being above a share.
	maxYields = 64
)

// Call represents a request that could give its stream to others. Its methods are called from any goroutine, and must not wait.
type Call interface {
	Silent() bool    // nothing has come of the request but its headers, and no message of the reply
	Moved() uint64   // grows with each piece of the request, and of the reply
	Yield(why error) // ends the call
}

// Client is a client's connection, as a pool shares streams among clients.
type Client struct {
	from   *address
	resets resetBudget

	// Guarded by the pool's mu.
	common   *member
	apart    *member // among those that reset much; nil: it is none of them
	departed bool
}

// Slot is a request's use of a stream. Its zero value with Client and Call is ready for Take; behind Release it may be used again.
type Slot struct {
	Client *Client // nil: it is no client's
	Call   Call    // nil: it never has to yield

	hop *Pooled
	err error // why there is no connection

	// Guarded by the pool's mu.
	member     *member
	ready      chan struct{} // closed when it has hop or err; nil: it does not wait
	since      time.Time     // it has begun to wait
	moved      uint64
	idle       time.Duration // in which others waited and it has not moved
	yields     bool          // it was told to
	prev, next *Slot         // among the member's
}

// origin is a client's address in a group.
type origin struct {
	addr    string
	refs    int // members
	present int // members that are present
	active  int // requests
	losing  int // of those, in a look
}

// member represents a client's connection in a group. A nil member has no requests.
type member struct {
	group    *group
	origin   *origin
	active   int
	losing   int     // of those, in a look
	first    *Slot   // of its requests
	queue    []*Slot // of those that wait
	quiet    bool    // the first of these was, when it was looked at
	at       int     // in sharing.present; -1: it is not there
	seen     time.Time
	departed bool
}

// sharing holds the state by which a group shares its streams. The pool's mu guards it.
type sharing struct {
	origins map[string]*origin
	present []*member // those with requests, and perhaps those that had some before updateContended looked
	origin  int       // how many of the origins have a member there
	waiting []*member // those with requests that wait

	size, free int64 // streams, as leastBusy has found them
	contended  bool  // streams are shared
	waited     time.Time
	yielding   int // requests that were told to, and have not ended
	looking    bool
	looked     time.Time
	timer      *time.Timer
}

// join begins a client's use of a group.
func (g *group) join(addr string) *member {
	o := g.origins[addr]
	if o == nil {
		o = &origin{addr: addr}
		g.origins[addr] = o
	}
	o.refs++
	return &member{group: g, origin: o, at: -1}
}

// leave ends it.
func (m *member) leave() {
	if m == nil || m.departed {
		return
	}
	m.departed = true
	if m.origin.refs--; m.origin.refs == 0 {
		delete(m.group.origins, m.origin.addr)
	}
	m.group.forget(m)
}

// appears notes that a member has requests, which is not among those present.
func (g *group) appears(m *member) {
	m.at = len(g.present)
	g.present = append(g.present, m)
	if m.origin.present++; m.origin.present == 1 {
		g.origin++
	}
}

// forget removes a member from those present, unless it has requests.
func (g *group) forget(m *member) {
	if m.at < 0 || m.active > 0 || len(m.queue) > 0 {
		return
	}
	last := len(g.present) - 1
	g.present[m.at] = g.present[last]
	g.present[m.at].at = m.at
	g.present[last] = nil
	g.present, m.at = g.present[:last], -1
	if m.origin.present--; m.origin.present == 0 {
		g.origin--
	}
}

// memberReleased notes that a member has one request less. Without requests it stays among those present, as it may
// soon have some again, until it leaves or updateContended counts.
func (g *group) memberReleased(m *member) {
	switch {
	case m.departed:
		g.forget(m)
	case g.contended:
		m.seen = time.Now()
	}
}

// unqueue ends a request's wait.
func (g *group) unqueue(s *Slot) {
	m := s.member
	m.queue = slices.DeleteFunc(m.queue, func(other *Slot) bool { return other == s })
	if len(m.queue) == 0 {
		g.waiting = slices.DeleteFunc(g.waiting, func(other *member) bool { return other == m })
	}
	g.memberReleased(m)
}

// wake ends the wait of a request that was unqueued, behind all that it reads of its slot.
func (s *Slot) wake() {
	ready := s.ready
	s.ready = nil
	close(ready) // from here on the slot is the request's, which may use it anew
}

// give lets a request use a connection.
func (g *group) give(s *Slot, u *Pooled) {
	m := s.member
	s.hop = u
	u.active.Add(1)
	m.active++
	m.origin.active++
	s.moved, s.idle, s.yields = 0, 0, false
	s.prev, s.next = nil, m.first
	if s.next != nil {
		s.next.prev = s
	}
	m.first = s
}

// failAll ends all waits.
func (g *group) failAll(err error) {
	for len(g.waiting) > 0 {
		s := g.waiting[0].queue[0]
		s.err = err
		g.unqueue(s)
		s.wake()
	}
}

// serve gives free streams to requests that wait.
func (g *group) serve() {
	for len(g.waiting) > 0 {
		best, room := g.leastBusy()
		if best == nil {
			g.grow(best, room)
		}
		if room <= 0 {
			return
		}
		s := g.next()
		if s == nil {
			return
		}
		g.give(s, best)
		g.unqueue(s) // behind give: a member that has left is forgotten when it has no requests
		s.wake()
	}
}

// next returns the request that gets the next stream; nil: none may.
func (g *group) next() (best *Slot) {
	now := time.Now()
	front := min(len(g.waiting), maxLooks)
	last := max(front, len(g.waiting)-maxLooks)
	for _, some := range [][]*member{g.waiting[:front], g.waiting[last:]} {
		for _, m := range some {
			s := m.next()
			m.quiet = s.quiet(now)
			if g.mayTake(m, m.quiet) && (best == nil || compare(s, best) < 0) {
				best = s
			}
		}
	}
	return best
}

// compare orders requests by their claim to a stream. Whether they are quiet, their members know.
func compare(s, other *Slot) int {
	if quiet := s.member.quiet; quiet != other.member.quiet {
		if quiet {
			return 1
		}
		return -1
	}
	return cmp.Or(
		cmp.Compare(s.member.origin.active, other.member.origin.active),
		cmp.Compare(s.member.active, other.member.active),
		s.since.Compare(other.since),
	)
}

// order puts in front the members whose requests have the most claim to a stream.
func (g *group) order(now time.Time) {
	for _, m := range g.waiting {
		m.order()
		m.quiet = m.queue[0].quiet(now)
	}
	slices.SortStableFunc(g.waiting, func(a, b *member) int { return compare(a.queue[0], b.queue[0]) })
}

// next returns the first of a member's requests of which more has come than headers, or else the first. It looks at a few, since it runs for
// every request of every client.
func (m *member) next() *Slot {
	for _, s := range m.queue[:min(len(m.queue), maxLooks)] {
		if !s.silent() {
			return s
		}
	}
	return m.queue[0]
}

// order puts requests of which more has come than headers in front of the others.
func (m *member) order() {
	var silent []*Slot
	front := m.queue[:0]
	for _, s := range m.queue {
		if s.silent() {
			silent = append(silent, s)
		} else {
			front = append(front, s)
		}
	}
	m.queue = append(front, silent...)
}

func (s *Slot) silent() bool { return s.Call != nil && s.Call.Silent() }

// quiet reports whether a request that waits has less of a claim than others: nothing has come but headers, and it has not waited for long.
func (s *Slot) quiet(now time.Time) bool { return now.Sub(s.since) < shareTime && s.silent() }

// mayTake reports whether a member may have a stream that is free.
func (g *group) mayTake(m *member, quiet bool) bool {
	return !g.contended || g.free > g.size/reservePart || !quiet && g.isBelow(m)
}

// share is the fair share of an address.
func (g *group) share() int { return max(1, int(g.size)/max(1, g.origin)) }

// shareOf is the fair share of a member.
func (g *group) shareOf(m *member) int { return max(1, g.share()/max(1, m.origin.present)) }

// isBelow reports whether a member has less than its share.
func (g *group) isBelow(m *member) bool {
	return m.origin.active < g.share() && m.active < g.shareOf(m)
}

// await begins to look at requests that wait. While a connection is opened nothing is to be done for them.
func (g *group) await() {
	if len(g.waiting) == 0 || g.dialing || g.looking {
		return
	}
	g.looking, g.looked = true, time.Now()
	if g.timer == nil {
		g.timer = time.AfterFunc(sharePeriod, g.look)
	} else {
		g.timer.Reset(sharePeriod)
	}
	g.updateContended(g.looked)
}

// updateContended sets contended: whether streams are shared among clients. Those without requests count for as long as
// that, since they had some while streams were shared.
func (g *group) updateContended(now time.Time) {
	for i := len(g.present) - 1; i >= 0; i-- {
		if m := g.present[i]; !g.contended || now.Sub(m.seen) >= contendedTime {
			g.forget(m)
		}
	}
	if len(g.waiting) > 0 && !g.dialing && len(g.present) > 1 {
		g.contended, g.waited = true, now
	}
	g.contended = g.contended && len(g.present) > 1 && now.Sub(g.waited) < contendedTime
}

// yield is a call that loses its stream.
type yield struct {
	call Call
	why  error
}

// look looks at requests that wait, and again later while there are some, or streams are shared. mu is not held.
func (g *group) look() {
	defer gateway.CatchPanic(g.Log, g.Stats, nil)
	for _, y := range g.lookOnce() {
		y.call.Yield(y.why)
	}
}

func (g *group) lookOnce() (lose []yield) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	passed := min(now.Sub(g.looked), 2*sharePeriod) // not what this process slept
	g.looked = now
	g.updateContended(now)
	g.order(now)
	g.serve()
	lose = g.reclaim(now, passed)
	if g.looking = len(g.waiting) > 0 && !g.dialing || g.contended; g.looking {
		g.timer.Reset(sharePeriod)
	}
	return lose
}

// reclaim chooses the calls that lose their streams to requests that wait.
func (g *group) reclaim(now time.Time, passed time.Duration) (lose []yield) {
	if !g.contended || len(g.waiting) == 0 {
		return nil
	}
	cut := func(s *Slot, why error) {
		s.yields = true
		g.yielding++
		s.member.losing++
		s.member.origin.losing++
		lose = append(lose, yield{s.Call, why})
	}
	idle, silent := g.measure(passed)
	slices.SortStableFunc(silent, func(a, b *Slot) int { return cmp.Compare(b.member.origin.active, a.member.origin.active) })
	pressing := 0
	for _, m := range g.waiting {
		for _, s := range m.queue {
			if !s.quiet(now) {
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
		if !s.yields && g.isAbove(s.member) {
			cut(s, ErrShare)
			due--
		}
	}
	return lose
}

// measure notes which calls have moved since the last look, and returns all that could yield, and those of them that are silent.
func (g *group) measure(passed time.Duration) (all, silent []*Slot) {
	for _, m := range g.present {
		m.losing, m.origin.losing = 0, 0
	}
	for _, m := range g.present {
		alone := len(g.waiting) == 1 && g.waiting[0] == m // no call loses its stream to requests of its own connection
		for s := m.first; s != nil; s = s.next {
			if s.yields {
				m.losing++
				m.origin.losing++
			}
			if s.Call == nil || s.yields {
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

// due counts the requests of members below their shares that have waited for too long.
func (g *group) due(now time.Time) (n int) {
	for _, m := range g.waiting {
		if !g.isBelow(m) {
			continue
		}
		late := 0
		for _, s := range m.queue {
			if now.Sub(s.since) >= shareTime {
				late++
			}
		}
		n += min(late, g.shareOf(m)-m.active)
	}
	return n
}

// isAbove reports whether a member has more than its share, or its address has.
func (g *group) isAbove(m *member) bool {
	return m.origin.active-m.origin.losing > g.share() || g.origin == 1 && m.active-m.losing > g.shareOf(m)
}
