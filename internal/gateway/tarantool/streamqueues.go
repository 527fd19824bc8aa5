package tarantool

import (
	"cmp"
	"slices"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
)

// streamQueue is the queue of the requests of one stream of a connection, or of all requests that are in no stream
// (stream 0). The server begins a queue's requests in the order in which they arrive. When it refuses a request because
// the schema has changed, requests behind it must not overtake it while it is sent again. So as long as a request with
// a stamp is unanswered, all requests behind it in its queue carry the same stamp, whatever they are. They are
// refused with it, and all are sent again in their order while the client's next requests wait. In the picture the
// number behind a request is its stamp, and 109 is the server's error.
//
//	client     A   B   C        D waits
//	upstream   A+5 B+5 C+5      A+6 B+6 C+6 D+6
//	server     109 109 109
type streamQueue struct {
	stamp     uint64 // stamp that requests carry while refusable > 0
	refusable int    // number of unanswered requests whose stamp the server is not known to have accepted
	retrying  bool   // the client's next requests wait while a goroutine sends the parked ones
	probeSent bool   // a probe has been sent and is not answered yet
	parked    []parked
}

// maxStreamQueues limits the streams of a connection that may have unanswered requests with a stamp, and so the
// goroutines that send such requests again.
const maxStreamQueues = 1024

// parked is a request that has to be sent again because the server had another schema, or that takes several steps.
type parked struct {
	sync uint64
	exchange
}

// streamQueues holds the queues of a connection with requests that the server may refuse for their stamp, or that are
// parked.
type streamQueues struct {
	byStream  map[uint64]*streamQueue
	spare     *streamQueue // reused for the next queue: most requests are alone in theirs, so queues are short-lived
	lastOrder uint64       // the last exchange.order that was assigned
}

// get returns the queue of a stream. It creates the queue if necessary.
func (qs *streamQueues) get(stream uint64) *streamQueue {
	q := qs.byStream[stream]
	if q == nil {
		if qs.byStream == nil {
			qs.byStream = map[uint64]*streamQueue{}
		}
		if q, qs.spare = qs.spare, nil; q == nil {
			q = &streamQueue{}
		}
		qs.byStream[stream] = q
	}
	return q
}

// anyRetrying reports whether any queue has requests to send again.
func (qs *streamQueues) anyRetrying() bool {
	for _, q := range qs.byStream {
		if q.retrying {
			return true
		}
	}
	return false
}

// assignOrder sets the order of a request that has none yet.
func (qs *streamQueues) assignOrder(e *exchange) {
	if e.order == 0 {
		qs.lastOrder++
		e.order = qs.lastOrder
	}
}

// add counts an exchange if it carries a stamp.
func (qs *streamQueues) add(e *exchange) {
	if e.stamp == 0 {
		return
	}
	q := qs.get(e.stream)
	if q.refusable == 0 {
		q.stamp = e.stamp
	}
	q.refusable++
}

// remove undoes add. It reports whether the queue has changed.
func (qs *streamQueues) remove(e *exchange) bool {
	if e.stamp == 0 {
		return false
	}
	qs.byStream[e.stream].refusable--
	qs.removeIfIdle(e.stream)
	return true
}

// removeIfIdle removes a queue in which no request can be refused or has to be sent again.
func (qs *streamQueues) removeIfIdle(stream uint64) {
	if q := qs.byStream[stream]; q != nil && !q.retrying && q.refusable == 0 && len(q.parked) == 0 {
		delete(qs.byStream, stream)
		*q = streamQueue{}
		qs.spare = q
	}
}

// beginProbe reports whether the caller has to send a probe. In a stream a probe would be useless, since the server
// handles the requests of a stream one after the other.
func (q *streamQueue) beginProbe(stream uint64) bool {
	if stream != 0 || q.probeSent {
		return false
	}
	q.probeSent = true
	return true
}

// nextStamp returns the stamp that the queue's next requests carry, 0 for none.
func (q *streamQueue) nextStamp() uint64 {
	if q.refusable == 0 {
		return 0
	}
	return q.stamp
}

// firstParked returns the parked request that the client sent first.
func (q *streamQueue) firstParked() *exchange {
	first := slices.MinFunc(q.parked, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	return &first.exchange
}

// takeParked removes and returns the parked requests, in their order.
func (q *streamQueue) takeParked() []parked {
	list := q.parked
	q.parked = nil
	slices.SortFunc(list, func(a, b parked) int { return cmp.Compare(a.order, b.order) })
	return list
}

// reserve waits until the client's current request may enter its queue, and returns the stamp that the request has to
// carry there, or 0. If unstamped is set the request carries none of the gateway, and reserve waits until no request
// in the queue can be refused. It returns false if the reply pump has ended.
func (o *outstanding) reserve(stream uint64, unstamped bool, c *trace.Command) (stamp uint64, ok bool) {
	defer traceWait(c, c.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endReservation()
	flushed := false
	for {
		q := o.queues.byStream[stream]
		switch {
		case o.closed:
			return 0, false
		case q == nil && len(o.queues.byStream) < maxStreamQueues:
			o.reserved, o.reservedIn = true, stream
			return 0, true
		case q != nil && !q.retrying && (!unstamped || q.refusable == 0):
			o.reserved, o.reservedIn = true, stream
			return q.nextStamp(), true
		case q != nil && !q.retrying && q.beginProbe(stream):
			if o.unlocked(o.probe) != nil {
				return 0, false
			}
		case flushed:
			o.queueChanged.Wait()
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
		o.queueChanged.Broadcast()
	}
}

// accept records that the server has checked the stamps of all requests of a queue that were sent before the exchange
// with that number in sent. Those of them that are unanswered may take long, but can't be refused any more: the server
// refuses a request at once.
func (o *outstanding) accept(stream, sent uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acceptLocked(stream, sent)
}

func (o *outstanding) acceptLocked(stream, sent uint64) {
	q := o.queues.byStream[stream]
	if q == nil {
		return
	}
	q.probeSent = false
	o.exchanges.update(func(e *exchange) bool {
		if e.stamp == 0 || e.stream != stream || e.sent >= sent {
			return false
		}
		o.retryBuffer.drop(e)
		e.stamp = 0
		q.refusable--
		return true
	})
	o.queues.removeIfIdle(stream)
	o.queueChanged.Broadcast()
}

// queueStamp returns the stamp for a request that is sent again in that stream.
func (o *outstanding) queueStamp(stream uint64) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.queues.byStream[stream]; q != nil {
		return q.nextStamp()
	}
	return 0
}

// park queues a request to be sent later, and blocks the client's next requests in its queue. It reports
// whether the caller has to start the goroutine that sends the parked requests of the queue.
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
		o.retryBuffer.drop(&e)
		return false
	}
	o.queues.assignOrder(&e)
	q := o.queues.get(e.stream)
	if e.sent != 0 && len(q.parked) == 0 { // the first refused request: all before it were accepted
		o.acceptLocked(e.stream, e.sent)
		q = o.queues.get(e.stream)
	}
	q.parked = append(q.parked, parked{sync, e})
	first := !q.retrying
	q.retrying = true
	o.queueChanged.Broadcast()
	return first
}

// unpark removes and returns the parked requests of a queue, in their order. It first waits until they are complete:
// the server also refuses all requests behind the first that carry the same stamp, and a request with a reservation is
// about to be sent with that stamp. If nothing is parked, unpark unblocks the queue and returns nil.
func (o *outstanding) unpark(stream uint64) []parked {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues.get(stream)
	for !o.closed && len(q.parked) > 0 && (o.reserved && o.reservedIn == stream || o.awaitsRefusals(q, stream)) {
		o.queueChanged.Wait()
	}
	list := q.takeParked()
	if o.closed {
		for i := range list {
			o.retryBuffer.drop(&list[i].exchange)
		}
		list = nil
	}
	if list == nil {
		q.retrying = false
		o.queues.removeIfIdle(stream)
		o.queueChanged.Broadcast()
	}
	return list
}

// awaitsRefusals reports whether a request behind the first parked one is unanswered and will be refused too.
func (o *outstanding) awaitsRefusals(q *streamQueue, stream uint64) bool {
	first := q.firstParked()
	return o.exchanges.any(func(e *exchange) bool {
		return e.stamp != 0 && e.stream == stream && e.stamp == first.stamp && e.order > first.order
	})
}

// putBack parks requests again that unpark has returned and that can't be sent yet.
func (o *outstanding) putBack(stream uint64, list []parked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues.get(stream)
	q.parked = append(q.parked, list...)
}

// awaitAccepted waits until no request can be refused in a queue that the caller has blocked (retrying). It returns
// false if a request was refused meanwhile, or the reply pump has ended.
func (o *outstanding) awaitAccepted(stream uint64) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for q := o.queues.get(stream); !o.closed; {
		switch {
		case len(q.parked) > 0:
			return false, nil
		case q.refusable == 0:
			return true, nil
		case q.beginProbe(stream):
			if err := o.unlocked(o.probe); err != nil {
				return false, err
			}
		default:
			o.queueChanged.Wait()
		}
	}
	return false, nil
}
