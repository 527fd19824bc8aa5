package tarantool

import (
	"cmp"
	"slices"

	"github.com/cinch-layer/cinch/internal/trace"
)

// A lane is the queue of one stream of a connection, or of all requests that are in no stream. The server
// begins a lane's requests in the order in which they arrive. When it refuses a request because the schema
// has changed, requests behind it must not overtake it while it is sent again. So as long as a request with a
// stamp is unanswered, all requests behind it in its lane carry the same stamp, whatever they are. They are
// refused with it, and all are sent again in their order while the client's next requests wait.
//
//	client     A   B   C        D waits
//	upstream   A+5 B+5 C+5      A+6 B+6 C+6 D+6
//	server     109 109 109
type lane struct {
	stamp     uint64 // stamp that requests carry while refusable > 0
	refusable int    // unanswered requests with a stamp that the server has not accepted yet
	retrying  bool   // the client's next requests wait while a goroutine sends the parked ones
	probeSent bool   // a probe has been sent and is not answered yet
	parked    []parked
}

// maxLanes limits the streams that may have unanswered requests with a stamp at a time, and so the goroutines
// that send these requests again.
const maxLanes = 1024

// parked is a request that is to be sent again because the server had another schema, or that takes several
// steps.
type parked struct {
	sync uint64
	exchange
}

// lanes holds the lanes of a connection in which the server may refuse something.
type lanes struct {
	byStream map[uint64]*lane
	spare    *lane  // for the next lane: most requests are alone in theirs, so lanes come and go
	last     uint64 // place in the order of requests
}

// of returns the lane of a stream. It creates the lane if necessary.
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

// anyRetrying reports whether any lane has requests to send again.
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

// remove undoes add. It reports whether the lane has changed.
func (a *lanes) remove(e *exchange) bool {
	if e.stamp == 0 {
		return false
	}
	a.byStream[e.stream].refusable--
	a.tidy(e.stream)
	return true
}

// tidy removes a lane in which nothing can be refused and nothing is to be sent again.
func (a *lanes) tidy(stream uint64) {
	if l := a.byStream[stream]; l != nil && !l.retrying && l.refusable == 0 && len(l.parked) == 0 {
		delete(a.byStream, stream)
		*l = lane{}
		a.spare = l
	}
}

// beginProbe reports whether the caller has to send a probe. In a stream a probe would tell nothing, since
// the server handles the requests of a stream one after the other.
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

// takeParked removes and returns the parked requests, in their order.
func (l *lane) takeParked() []parked {
	list := l.parked
	l.parked = nil
	slices.SortFunc(list, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	return list
}

// reserve waits until the client's current request may enter its lane, and returns the stamp that the request
// has to carry there, or 0. If alone is set the request carries none, and reserve waits until nothing in the
// lane can be refused. It reports false when the reply pump has ended.
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

// cancelReservation gives up the reservation of a request that the gateway does not send.
func (o *outstanding) cancelReservation() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endReservation()
}

// endReservation ends the reservation that reserve made. o.mu must be held.
func (o *outstanding) endReservation() {
	if o.reserved {
		o.reserved = false
		o.laneChanged.Broadcast()
	}
}

// accept records that the server has checked the stamps of all requests of a lane that were sent before the
// one with number sent. Those that are unanswered may take long, but can't be refused any more: the server
// refuses at once.
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

// laneStamp returns the stamp for a request that is sent again in that stream.
func (o *outstanding) laneStamp(stream uint64) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes.byStream[stream]; l != nil {
		return l.nextStamp()
	}
	return 0
}

// park queues a request to be sent later, and blocks the client's next requests in its lane. It reports
// whether the caller has to start the goroutine that sends the parked requests of the lane.
func (o *outstanding) park(sync uint64, e exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.parkLocked(sync, e)
}

func (o *outstanding) parkLocked(sync uint64, e exchange) bool {
	if e.sent == 0 { // the request has not been sent yet
		o.endReservation()
	}
	if o.closed {
		o.originals.drop(&e)
		return false
	}
	o.lanes.place(&e)
	l := o.lanes.of(e.stream)
	if e.sent != 0 && len(l.parked) == 0 { // the first request to be refused
		o.acceptLocked(e.stream, e.sent)
		l = o.lanes.of(e.stream)
	}
	l.parked = append(l.parked, parked{sync, e})
	first := !l.retrying
	l.retrying = true
	o.laneChanged.Broadcast()
	return first
}

// unpark returns the parked requests of a lane, in their order. It first waits until they are complete: the
// server also refuses every request behind the first with the same stamp, and a request with a reservation is
// about to be sent with it. If nothing is parked unpark unblocks the lane and returns nil.
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

// awaitsRefusals reports whether a request behind the first parked one is unanswered and will be refused too.
func (o *outstanding) awaitsRefusals(l *lane, stream uint64) bool {
	first := l.firstParked()
	return o.exchanges.any(func(e *exchange) bool {
		return e.stamp != 0 && e.stream == stream && e.stamp == first.stamp && e.order > first.order
	})
}

// putBack parks requests again that unpark returned and that could not be sent yet.
func (o *outstanding) putBack(stream uint64, list []parked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes.of(stream)
	l.parked = append(l.parked, list...)
}

// awaitAccepted waits until nothing can be refused in a lane that the caller blocks. It reports false when a
// request was refused meanwhile, or the reply pump has ended.
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
