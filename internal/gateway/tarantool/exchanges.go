package tarantool

import (
	"time"

	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// exchange is a request that waits for its reply. Up to 128 bytes a map keeps it in its place; what is
// larger would be allocated for each request.
type exchange struct {
	kind  wire.Type
	tries int16         // how often it has been sent again
	probe bool          // a PING of ours that tells how far the server is; so is its sync
	spent time.Duration // by the gateway on the request

	stream uint64 // the lane
	order  uint64 // in which the client sent it
	sent   uint64 // in which it was sent to the server

	// Of a request that carries a stamp of ours, a version of the schema: what the client
	// sent, in a buffer of the pool's.
	stamp    uint64 // 0: none
	original []byte
	held     int64 // of the request budget, for that
	free     int32 // of the connection's own bytes, for that
	prefix   int32

	splice *splice // a step of it; the sync is ours

	broken string // a part of the answer did not open: its end becomes this error

	trace *trace.Command // nil: none
}

// asksAgain reports that the request is sent again when it has met another schema: the stamp in it is ours.
func (e *exchange) asksAgain() bool {
	if e.splice != nil {
		return !e.splice.own
	}
	return e.stamp != 0
}

// splice is a request that is carried out in steps (splice.go).
type splice struct {
	sync    uint64 // the client's
	stream  uint64
	kind    wire.Type
	own     bool   // the client stamped it itself
	stamp   uint64 // of the step at work
	began   time.Time
	trace   *trace.Command // nil: none
	missing *refusal       // the answer where the stored function is not there
	answers chan stepAnswer
}

// stepAnswer is what the reply pump has to say about a step.
type stepAnswer struct {
	done    bool   // the client has its answer
	moved   bool   // the schema has
	tuple   []byte // what is stored, in a buffer of the pool's; nil: it is to be read again
	release int64  // bytes of the request budget for that and what is made of it
}

// exchanges are found by the sync of their requests, which a client may use for several at a time.
type exchanges struct {
	bySync  map[uint64]exchange
	more    map[uint64][]exchange // in their order, while another with the same sync is in bySync
	waiting int                   // exchanges in both
	peak    int                   // most in the map since it was made
}

func (x *exchanges) add(sync uint64, e *exchange) {
	if x.bySync == nil {
		x.bySync, x.more = map[uint64]exchange{}, map[uint64][]exchange{}
	}
	x.waiting++
	if _, taken := x.bySync[sync]; taken {
		x.more[sync] = append(x.more[sync], *e)
		return
	}
	x.bySync[sync] = *e
	x.peak = max(x.peak, len(x.bySync))
}

// take finds the exchange that a reply answers and removes it. The first one is meant when a
// client gives several the same number.
func (x *exchanges) take(sync uint64) (e exchange, ok bool) {
	if e, ok = x.bySync[sync]; !ok {
		return e, false
	}
	x.waiting--
	switch same := x.more[sync]; len(same) {
	case 0:
		delete(x.bySync, sync)
	case 1:
		x.bySync[sync] = same[0]
		delete(x.more, sync)
	default:
		x.bySync[sync], x.more[sync] = same[0], same[1:]
	}
	return e, true
}

// shrink lets go of a map that has room for many when nothing waits. It reports whether it did.
func (x *exchanges) shrink() bool {
	if len(x.bySync) > 0 || x.peak <= maxIdleExchanges {
		return false
	}
	x.bySync, x.more, x.peak = nil, nil, 0
	return true
}

// maxIdleExchanges is how many exchanges the map has room for that an idle session keeps.
const maxIdleExchanges = 16

// change has each changed that do says it has changed.
func (x *exchanges) change(do func(*exchange) bool) {
	var (
		sync uint64
		e    exchange
	)
	for sync, e = range x.bySync {
		if do(&e) {
			x.bySync[sync] = e
		}
	}
	for _, same := range x.more {
		for i := range same {
			do(&same[i])
		}
	}
}

// any reports whether one of them is so.
func (x *exchanges) any(is func(*exchange) bool) bool {
	var e exchange
	for _, e = range x.bySync {
		if is(&e) {
			return true
		}
	}
	for _, same := range x.more {
		for i := range same {
			if is(&same[i]) {
				return true
			}
		}
	}
	return false
}
