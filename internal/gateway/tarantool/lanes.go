package tarantool

import (
	"cmp"
	"slices"

	"github.com/cinch-layer/cinch/internal/trace"
)

// A lane is a stream of a connection, or all requests that are in no stream. The server begins with a lane's requests
// in the order in which they come. A request that it refuses because the schema has changed must not be overtaken by
// those behind it when it is sent again: so these carry its stamp too, whatever they are, as long as it is unanswered.
// They are refused with it, and all are sent again in their order while the client's next requests wait.
//
//	client     A   B   C        D waits
//	upstream   A+5 B+5 C+5      A+6 B+6 C+6 D+6
//	server     109 109 109
type lane struct {
	stamp     uint64 // that requests carry while refusable > 0
	refusable int    // unanswered requests with a stamp that the server has not accepted yet
	retrying  bool   // the client's next requests wait: a goroutine sends what is parked
	probeSent bool   // and not answered
	parked    []parked
}

// maxLanes limits the streams that may have unanswered requests with a stamp at a time, and so the goroutines that send
// these again.
const maxLanes = 1024

// parked is a request that is to be sent again since it met another schema, or that takes several steps.
type parked struct {
	sync uint64
	exchange
}

// lanes holds the lanes of a connection in which the server may refuse something.
type lanes struct {
	byStream map[uint64]*lane
	spare    *lane  // for the next lane, since most requests are alone in theirs
	last     uint64 // place in the order of requests
}

// of returns the lane of a stream, made if it isn't there.
func (a *lanes) of(stream uint64) *lane {
	l := a.byStream[stream]
	if l == nil {
		if a.byStream == nil {
			a.byStream = map[uint64]*lane{}
		}
		if l, a.spare = a.spare, nil; l == nil {
			l = &lane{}
		}
		a.byStream[stream] = l
	}
	return l
}

// anyRetrying reports whether something is to be sent again in some lane.
func (a *lanes) anyRetrying() bool {
	for _, l := range a.byStream {
		if l.retrying {
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

// add counts an exchange that carries a stamp.
func (a *lanes) add(e *exchange) {
	if e.stamp == 0 {
		return
	}
	l := a.of(e.stream)
	if l.refusable == 0 {
		l.stamp = e.stamp
	}
	l.refusable++
}

// remove is the inverse of add. It reports whether the lane has changed.
func (a *lanes) remove(e *exchange) bool {
	if e.stamp == 0 {
		return false
	}
	a.byStream[e.stream].refusable--
	a.tidy(e.stream)
	return true
}

// tidy forgets a lane in which nothing can be refused and nothing is to be sent again.
func (a *lanes) tidy(stream uint64) {
	if l := a.byStream[stream]; l != nil && !l.retrying && l.refusable == 0 && len(l.parked) == 0 {
		delete(a.byStream, stream)
		*l = lane{}
		a.spare = l
	}
}

// beginProbe reports whether the caller is to send a probe. The server begins with the requests of a stream one after
// the other, so there a probe would tell nothing.
func (l *lane) beginProbe(stream uint64) bool {
	if stream != 0 || l.probeSent {
		return false
	}
	l.probeSent = true
	return true
}

// nextStamp returns the stamp that the lane's next requests carry, 0 for none.
func (l *lane) nextStamp() uint64 {
	if l.refusable == 0 {
		return 0
	}
	return l.stamp
}

// firstParked returns the parked request that the client sent first.
func (l *lane) firstParked() *exchange {
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

// reserve waits until the client's current request may go into its lane, and returns the stamp that it carries there,
// 0: none. A request that can't carry it goes alone, when nothing in the lane can be refused. reserve reports false
// when the reply pump has ended.
func (o *outstanding) reserve(stream uint64, alone bool, c *trace.Command) (stamp uint64, ok bool) {
	defer traceWait(c, c.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endReservation()
	flushed := false
	for {
		l := o.lanes.byStream[stream]
		switch {
		case o.closed:
			return 0, false
		case l == nil && len(o.lanes.byStream) < maxLanes:
			o.reserved, o.reservedIn = true, stream
			return 0, true
		case l != nil && !l.retrying && (!alone || l.refusable == 0):
			o.reserved, o.reservedIn = true, stream
			return l.nextStamp(), true
		case l != nil && !l.retrying && l.beginProbe(stream):
			if o.unlocked(o.probe) != nil {
				return 0, false
			}
		case flushed:
			o.laneChanged.Wait()
		default:
			if flushed = true; o.unlocked(o.flush) != nil {
				return 0, false
			}
		}
	}
}

// cancelReservation gives up the reservation of a request that the gateway does not send after all.
func (o *outstanding) cancelReservation() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endReservation()
}

// endReservation ends what reserve began. o.mu must be held.
func (o *outstanding) endReservation() {
	if o.reserved {
		o.reserved = false
		o.laneChanged.Broadcast()
	}
}

// accept records that the server has looked at the stamps of all requests of a lane that were sent before one. Those
// that are unanswered may take long, but can't be refused any more: refusals come at once.
func (o *outstanding) accept(stream, sent uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acceptLocked(stream, sent)
}

func (o *outstanding) acceptLocked(stream, sent uint64) {
	l := o.lanes.byStream[stream]
	if l == nil {
		return
	}
	l.probeSent = false
	o.exchanges.change(func(e *exchange) bool {
		if e.stamp == 0 || e.stream != stream || e.sent >= sent {
			return false
		}
		o.originals.drop(e)
		e.stamp = 0
		l.refusable--
		return true
	})
	o.lanes.tidy(stream)
	o.laneChanged.Broadcast()
}

// laneStamp returns the stamp that a request carries which is sent again.
func (o *outstanding) laneStamp(stream uint64) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes.byStream[stream]; l != nil {
		return l.nextStamp()
	}
	return 0
}

// park keeps a request, and has the client's next requests in its lane wait. It reports whether the caller is to start
// the goroutine that sends what is parked there.
func (o *outstanding) park(sync uint64, e exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.parkLocked(sync, e)
}

func (o *outstanding) parkLocked(sync uint64, e exchange) bool {
	if e.sent == 0 { // from the client
		o.endReservation()
	}
	if o.closed {
		o.originals.drop(&e)
		return false
	}
	o.lanes.place(&e)
	l := o.lanes.of(e.stream)
	if e.sent != 0 && len(l.parked) == 0 { // the first that is refused
		o.acceptLocked(e.stream, e.sent)
		l = o.lanes.of(e.stream)
	}
	l.parked = append(l.parked, parked{sync, e})
	first := !l.retrying
	l.retrying = true
	o.laneChanged.Broadcast()
	return first
}

// unpark takes what is parked in a lane, in its order, when all that will be is there: the server refuses whatever is
// behind the first with the same stamp, and a request with a reservation is about to be sent with it. If there is
// nothing, unpark releases the lane.
func (o *outstanding) unpark(stream uint64) []parked {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes.of(stream)
	for !o.closed && len(l.parked) > 0 && (o.reserved && o.reservedIn == stream || o.awaitsRefusals(l, stream)) {
		o.laneChanged.Wait()
	}
	list := l.takeParked()
	if o.closed {
		for i := range list {
			o.originals.drop(&list[i].exchange)
		}
		list = nil
	}
	if list == nil {
		l.retrying = false
		o.lanes.tidy(stream)
		o.laneChanged.Broadcast()
	}
	return list
}

// awaitsRefusals reports whether a request behind the first that is parked is unanswered and will be refused too.
func (o *outstanding) awaitsRefusals(l *lane, stream uint64) bool {
	first := l.firstParked()
	return o.exchanges.any(func(e *exchange) bool {
		return e.stamp != 0 && e.stream == stream && e.stamp == first.stamp && e.order > first.order
	})
}

// putBack parks again what unpark returned and could not be sent yet.
func (o *outstanding) putBack(stream uint64, list []parked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes.of(stream)
	l.parked = append(l.parked, list...)
}

// awaitAccepted waits until nothing in a lane that waits for the caller can be refused. It reports false when something
// was refused meanwhile, or the reply pump has ended.
func (o *outstanding) awaitAccepted(stream uint64) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.lanes.of(stream); !o.closed; {
		switch {
		case len(l.parked) > 0:
			return false, nil
		case l.refusable == 0:
			return true, nil
		case l.beginProbe(stream):
			if err := o.unlocked(o.probe); err != nil {
				return false, err
			}
		default:
			o.laneChanged.Wait()
		}
	}
	return false, nil
}
