package grpc

import (
	"net/http"
	"strconv"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
)

// What calls over a link with lanes have beside others. Nothing here runs for any other call.

// unlaned returns the encoding that a call has beside lanes, in which messages of Protocol Buffers go that
// find none.
func unlaned(encoding string) string {
	if encoding == lanes.Encoding {
		return codec.Proto.String()
	}
	return encoding
}

// toLanes returns the encoding for a call that has lanes, where a rule wants another one.
func toLanes(encoding string) string {
	if encoding == codec.Proto.String() {
		return lanes.Encoding
	}
	return encoding
}

// laneTerms are the part of a call's negotiation that is about the lanes of the client's link.
type laneTerms struct {
	ends     *lanes.Ends    // nil: the client's connection has none
	assigned lanes.Assigned // what the client says of the reply's lane
}

// meet takes what the client's request says of lanes.
func (t *laneTerms) meet(h http.Header, ends *lanes.Ends) {
	t.ends, t.assigned = ends, ends.Writers.Assigned(h.Get(lanes.Header))
	delete(h, lanes.Header)
}

// tell completes a response's headers. The upstream does not speak of lanes to our client.
func (t *laneTerms) tell(h http.Header) {
	delete(h, lanes.Header)
	delete(h, lanes.OpenedHeader)
	if rooms := t.ends.Readers.Rooms(); rooms != "" {
		h[lanes.Header] = []string{rooms}
	}
}

// attemptLanes holds the lanes that an attempt uses on its connection to the upstream.
type attemptLanes struct {
	out    *lanes.Out // nil: its messages go in none
	in     *lanes.In  // nil: the connection has none, or the headers of the request are not complete
	opened int64      // messages that the far gateway has opened, by its own word; -1: it has not said
	read   bool       // the response to its end
}

// takeLanes completes the plan and the headers of a request for a connection.
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

// told takes what a response's headers say, and removes it.
func (a *attemptLanes) told(h http.Header) {
	a.out.Told(h[lanes.Header])
	delete(h, lanes.Header)
	a.toldOpened(h)
}

// toldOpened does that with the number of messages that were opened, which may also come in trailers.
func (a *attemptLanes) toldOpened(h http.Header) {
	if values := h[lanes.OpenedHeader]; len(values) == 1 {
		a.opened = lanes.ParseOpened(values[0])
	}
	delete(h, lanes.OpenedHeader)
}

// done gives the attempt's lanes back, when nothing of it is read any more.
func (a *attemptLanes) done() {
	a.out.Done(a.opened)
	a.in.Done(a.read)
}

// unlanedBody is the body of a client's request whose messages come in lanes, with them opened: plain, and
// marked where the client's own client had compressed them. It lies below the replay buffer, since what is in
// a lane can be opened only once.
type unlanedBody struct {
	guarded
	in *lanes.In
}

// openLanes has the call's attempts read the request's messages as they are without lanes.
func (c *call) openLanes() *unlanedBody {
	b := &unlanedBody{in: c.terms.lanes.ends.Readers.Request()}
	p := plan{from: lanes.Encoding, marked: c.terms.original != "", marks: c.terms.original, in: b.in}
	b.rewriter = c.rewrite(c.r.Context(), c.r.Body, p, false, c.cancelAttempt)
	c.terms.from = ""
	delete(c.r.Header, "Grpc-Encoding")
	return b
}

// tell adds to headers or trailers how many messages were opened.
func (b *unlanedBody) tell(h http.Header) {
	if n := b.in.Opened(); n > 0 {
		h[lanes.OpenedHeader] = []string{strconv.FormatInt(n, 10)}
	}
}
