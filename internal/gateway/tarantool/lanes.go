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

// lanes are those of a connection in which something is unanswered that can be refused.
type lanes struct {
	byStream map[uint64]*lane
	last     uint64 // in the order of requests
}

// find is the lane of a stream, nil if there is none.
func (a *lanes) find(stream uint64) *lane { return a.byStream[stream] }

// of is the lane of a stream, made if it isn't there.
func (a *lanes) of(stream uint64) *lane {
	l := a.byStream[stream]
	if l == nil {
		if a.byStream == nil {
			a.byStream = map[uint64]*lane{}
		}
		l = &lane{}
		a.byStream[stream] = l
	}
	return l
}

// full reports that there is no room for another lane.
func (a *lanes) full() bool { return len(a.byStream) >= maxLanes }

// held reports whether something is to be sent again in some lane.
func (a *lanes) held() bool {
	for _, l := range a.byStream {
		if l.held {
			return true
		}
	}
	return false
}

// place gives a request its place in the order.
func (a *lanes) place(e *exchange) {
	if e.order == 0 {
		a.last++
		e.order = a.last
	}
}

// opened and answered count the exchanges of a lane that carry a stamp.
func (a *lanes) opened(e *exchange) {
	if e.stamp == 0 {
		return
	}
	l := a.of(e.stream)
	if l.open == 0 {
		l.stamp = e.stamp
	}
	l.open++
}

// answered reports whether the lane may have changed for those that wait.
func (a *lanes) answered(e *exchange) bool {
	if e.stamp == 0 {
		return false
	}
	a.byStream[e.stream].open--
	a.tidy(e.stream)
	return true
}

// tidy forgets a lane of which there is nothing to know.
func (a *lanes) tidy(stream uint64) {
	if l := a.byStream[stream]; l != nil && !l.held && l.open == 0 && len(l.parked) == 0 {
		delete(a.byStream, stream)
	}
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

// current is the stamp that the lane's next ones carry.
func (l *lane) current() uint64 {
	if l.open == 0 {
		return 0
	}
	return l.stamp
}

// first is the one that the client sent before all others that are parked.
func (l *lane) first() *exchange {
	first := slices.MinFunc(l.parked, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	return &first.exchange
}

// takeParked takes what is parked, in its order.
func (l *lane) takeParked() []parked {
	list := l.parked
	l.parked = nil
	slices.SortFunc(list, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	return list
}
