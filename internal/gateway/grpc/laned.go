package grpc

import (
	"net/http"
	"strconv"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
)

// This file contains what only calls over a link with lanes need. Of it, other calls use only unlaned.

// unlaned returns the encoding of messages that find no lane: cinch-proto for a call in lanes, and encoding itself for
// any other call.
func unlaned(encoding string) string {
	if encoding == lanes.Encoding {
		return codec.Proto.String()
	}
	return encoding
}

// toLanes returns the encoding for a call that has lanes: lanes in place of cinch-proto, other encodings unchanged.
func toLanes(encoding string) string {
	if encoding == codec.Proto.String() {
		return lanes.Encoding
	}
	return encoding
}

// laneTerms holds what is negotiated for a call about the lanes of the client's link.
type laneTerms struct {
	ends     *lanes.Ends    // nil: the client's connection has none
	assigned lanes.Assigned // lane of the reply, as assigned by the client
}

// meet reads and removes the lanes header of the client's request.
func (t *laneTerms) meet(h http.Header, ends *lanes.Ends) {
	t.ends, t.assigned = ends, ends.Writers.Assigned(h.Get(lanes.Header))
	delete(h, lanes.Header)
}

// tell sets the lanes header of a response to this gateway's lanes. It removes such headers of the upstream: only this
// gateway has lanes with the client.
func (t *laneTerms) tell(h http.Header) {
	delete(h, lanes.Header)
	delete(h, lanes.OpenedHeader)
	if rooms := t.ends.Readers.Rooms(); rooms != "" {
		h[lanes.Header] = []string{rooms}
	}
}

// attemptLanes holds the lanes that an attempt uses on its connection to the upstream.
type attemptLanes struct {
	out    *lanes.Out // for the request; nil: its messages use no lane
	in     *lanes.In  // for the response; nil: the connection has no lanes, or the request's headers are not complete
	opened int64      // messages of the request that the far gateway reports as opened; -1: not reported
	read   bool       // the response was read to its end
}

// takeLanes takes lanes of a connection for an attempt, and completes the plan and the headers of its request.
func takeLanes(ends *lanes.Ends, p *plan, h http.Header) (a attemptLanes) {
	a.opened, a.in = -1, ends.Readers.Reply()
	delete(h, lanes.Header)
	if text := a.in.Header(); text != "" {
		h[lanes.Header] = []string{text}
	}
	if p.to == lanes.Encoding {
		a.out = ends.Writers.Request()
		p.out = a.out
	}
	return a
}

// told records and removes what a response's headers say about lanes.
func (a *attemptLanes) told(h http.Header) {
	a.out.Told(h[lanes.Header])
	delete(h, lanes.Header)
	a.toldOpened(h)
}

// toldOpened records and removes the number of opened messages, which may be in headers or trailers.
func (a *attemptLanes) toldOpened(h http.Header) {
	if values := h[lanes.OpenedHeader]; len(values) == 1 {
		a.opened = lanes.ParseOpened(values[0])
	}
	delete(h, lanes.OpenedHeader)
}

// done gives back the attempt's lanes. No message of the attempt may be read after it.
func (a *attemptLanes) done() {
	a.out.Done(a.opened)
	a.in.Done(a.read)
}

// unlanedBody is the body of a client's request in lanes, with its messages decompressed, and marked if the client's
// own client had compressed them. The replay buffer reads from it, and not the reverse, because a message in a lane
// can be decompressed only once.
type unlanedBody struct {
	guarded
	in *lanes.In
}

// openLanes returns the request's body with its messages taken out of lanes. From then on the call has no encoding.
func (c *call) openLanes() *unlanedBody {
	b := &unlanedBody{in: c.terms.lanes.ends.Readers.Request()}
	p := plan{from: lanes.Encoding, marked: c.terms.original != "", marks: c.terms.original, in: b.in}
	b.rewriter = c.rewrite(c.r.Context(), c.r.Body, p, false, c.cancelAttempt)
	c.terms.from = ""
	delete(c.r.Header, "Grpc-Encoding")
	return b
}

// tell adds the number of messages opened so far to headers or trailers.
func (b *unlanedBody) tell(h http.Header) {
	if n := b.in.Opened(); n > 0 {
		h[lanes.OpenedHeader] = []string{strconv.FormatInt(n, 10)}
	}
}
