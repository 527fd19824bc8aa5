package tarantool

import (
	"cmp"
	"slices"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// A lane is a stream of a connection's, or all that is in none. The server begins with a lane's
// requests in the order in which they come. A request that it refuses because the schema moved
// must not be overtaken by those behind it when it is sent again: so these carry its stamp too,
// whatever they are, as long as it is unanswered. They are refused with it, and all are sent
// again in their order while the client's next ones wait.
//
//	client     A   B   C        D waits
//	upstream   A+5 B+5 C+5      A+6 B+6 C+6 D+6
//	server     109 109 109
type lane struct {
	stamp  uint64 // what requests carry while some that do are unanswered
	open   int    // those
	held   bool   // the client's next ones wait: somebody sends what is parked
	asked  bool   // a probe is on its way
	parked []parked
}

// maxLanes bounds how many streams at a time may have something unanswered that can be refused, and
// so the goroutines that send it again.
const maxLanes = 1024

// parked is a request that is to be sent again since it met another schema, or that takes
// several steps.
type parked struct {
	sync uint64
	exchange
}

// ordered reports whether a request's place in its lane matters: all that read, write or run
// something. The server looks at the stamps of each of these first.
func ordered(t wire.Type) bool {
	switch t {
	case wire.Select, wire.Insert, wire.Replace, wire.Update, wire.Delete, wire.Upsert,
		wire.Call, wire.Call16, wire.Eval, wire.Execute, wire.Prepare,
		wire.Begin, wire.Commit, wire.Rollback:
		return true
	}
	return false
}

// enter waits until requests may go into a lane, and gives the stamp that they carry there, 0:
// none. Those that can't carry it go alone, when nothing in the lane can be refused: ask sends
// a probe to find out. It reports false when the reply pump has ended.
func (p *pending) enter(stream uint64, alone bool, beforeWait, ask func() error) (stamp uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	flushed := false
	for {
		l := p.lanes[stream]
		switch {
		case p.closed:
			return 0, false
		case l == nil && len(p.lanes) < maxLanes:
			return 0, true
		case l != nil && !l.held && (!alone || l.open == 0):
			return l.current(), true
		case l != nil && !l.held && l.asks(stream):
			if p.unlocked(ask) != nil {
				return 0, false
			}
		case flushed:
			p.moved.Wait()
		default:
			if flushed = true; p.unlocked(beforeWait) != nil {
				return 0, false
			}
		}
	}
}

// unlocked does what may have to wait: replies have to be found while a write is stuck.
func (p *pending) unlocked(do func() error) error {
	p.mu.Unlock()
	defer p.mu.Lock()
	return do()
}

// asks reports whether a probe is to be sent. The server begins with the requests of a stream one
// after the other, so there it would tell nothing.
func (l *lane) asks(stream uint64) bool {
	if stream != 0 || l.asked {
		return false
	}
	l.asked = true
	return true
}

// begun takes notice that the server has looked at the stamps of all of a lane's requests that were
// sent before one. Those that are unanswered may take long, but can't be refused any more: refusals
// come at once.
func (p *pending) begun(stream, sent uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begunLocked(stream, sent)
}

func (p *pending) begunLocked(stream, sent uint64) {
	l := p.lanes[stream]
	if l == nil {
		return
	}
	l.asked = false
	started := func(e *exchange) bool {
		if e.stamp == 0 || e.stream != stream || e.sent >= sent {
			return false
		}
		p.forget(e)
		e.stamp = 0
		l.open--
		return true
	}
	for sync, e := range p.bySync {
		if started(&e) {
			p.bySync[sync] = e
		}
	}
	for _, same := range p.more {
		for i := range same {
			started(&same[i])
		}
	}
	p.tidy(stream)
}

func (l *lane) current() uint64 {
	if l.open == 0 {
		return 0
	}
	return l.stamp
}

// stampOf is what a request that is sent again carries.
func (p *pending) stampOf(stream uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lanes[stream]; l != nil {
		return l.current()
	}
	return 0
}

// lane is the one of a stream, made if it isn't there.
func (p *pending) lane(stream uint64) *lane {
	l := p.lanes[stream]
	if l == nil {
		if p.lanes == nil {
			p.lanes = map[uint64]*lane{}
		}
		l = &lane{}
		p.lanes[stream] = l
	}
	return l
}

// tidy forgets a lane of which there is nothing to know, and wakes who waits for it.
func (p *pending) tidy(stream uint64) {
	if l := p.lanes[stream]; l != nil && !l.held && l.open == 0 && len(l.parked) == 0 {
		delete(p.lanes, stream)
	}
	p.moved.Broadcast()
}

// opened and answered count the exchanges of a lane that carry a stamp.
func (p *pending) opened(e *exchange) {
	if e.stamp == 0 {
		return
	}
	l := p.lane(e.stream)
	if l.open == 0 {
		l.stamp = e.stamp
	}
	l.open++
}

func (p *pending) answered(e *exchange) {
	if e.stamp == 0 {
		return
	}
	p.lanes[e.stream].open--
	p.tidy(e.stream)
}

// park keeps a request, and holds its lane. It reports whether nobody sends what is parked there
// yet.
func (p *pending) park(sync uint64, e exchange) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.forget(&e)
		return false
	}
	p.place(&e)
	l := p.lane(e.stream)
	if e.sent != 0 && len(l.parked) == 0 { // the first that is refused
		p.begunLocked(e.stream, e.sent)
		l = p.lane(e.stream)
	}
	l.parked = append(l.parked, parked{sync, e})
	first := !l.held
	l.held = true
	p.moved.Broadcast()
	return first
}

// place gives a request its place in the order.
func (p *pending) place(e *exchange) {
	if e.order == 0 {
		p.last++
		e.order = p.last
	}
}

// unpark takes what is parked in a lane, in its order, when all that will be is there: the server
// refuses whatever is behind the first with the same stamp. When there is nothing it lets the
// lane go.
func (p *pending) unpark(stream uint64) []parked {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(stream)
	for !p.closed && len(l.parked) > 0 && p.moreRefused(l, stream) {
		p.moved.Wait()
	}
	list := l.parked
	l.parked = nil
	slices.SortFunc(list, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	if p.closed {
		for i := range list {
			p.forget(&list[i].exchange)
		}
		list = nil
	}
	if list == nil {
		l.held = false
		p.tidy(stream)
	}
	return list
}

// moreRefused reports whether a request behind the first that is parked is unanswered and will be
// refused too.
func (p *pending) moreRefused(l *lane, stream uint64) bool {
	first := slices.MinFunc(l.parked, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	behind := func(e *exchange) bool {
		return e.stamp != 0 && e.stream == stream && e.stamp == first.stamp && e.order > first.order
	}
	for _, e := range p.bySync {
		if behind(&e) {
			return true
		}
	}
	for _, same := range p.more {
		if slices.ContainsFunc(same, func(e exchange) bool { return behind(&e) }) {
			return true
		}
	}
	return false
}

// putBack returns what unpark gave and could not be sent yet, for the next time.
func (p *pending) putBack(stream uint64, list []parked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(stream)
	l.parked = append(l.parked, list...)
}

// alone waits until nothing in a held lane can be refused; ask sends a probe. It reports false when
// something was refused meanwhile, or the reply pump has ended.
func (p *pending) alone(stream uint64, ask func() error) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := p.lane(stream); !p.closed; {
		switch {
		case len(l.parked) > 0:
			return false, nil
		case l.open == 0:
			return true, nil
		case l.asks(stream):
			if err := p.unlocked(ask); err != nil {
				return false, err
			}
		default:
			p.moved.Wait()
		}
	}
	return false, nil
}
