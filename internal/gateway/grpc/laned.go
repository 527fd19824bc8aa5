package grpc

import (
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
)

// laneTerms are the part of a call's negotiation that is about lanes.
type laneTerms struct {
	ends     *lanes.Ends    // of the client's link; nil: it has none
	assigned lanes.Assigned // what the client says of the reply's lane
}

// meet takes what the client's request says of lanes. It reports false if it uses them where it must not: only a gateway over a link
// with lanes may, and it has sealed all their messages itself.
func (t *laneTerms) meet(r *http.Request, ends *lanes.Ends, from string) bool {
	if t.ends = ends; ends != nil {
		t.assigned = ends.Writers.Assigned(r.Header.Get(lanes.Header))
		delete(r.Header, lanes.Header)
	}
	return from != lanes.Encoding || ends != nil
}

// reply is the encoding for replies where a rule wants one that the client reads.
func (t *laneTerms) reply(want string) string {
	if t.ends == nil {
		return want
	}
	return toLanes(want)
}

// seal completes the plan for replies, and returns what seals them, if they go in lanes.
func (t *laneTerms) seal(p *plan) *lanes.Out {
	if p.to == lanes.Encoding {
		p.out = t.ends.Writers.Reply(t.assigned)
	}
	return p.out
}

// tell completes a response's headers. The upstream does not speak of lanes to our client.
func (t *laneTerms) tell(h http.Header) {
	if t.ends == nil {
		return
	}
	delete(h, lanes.Header)
	delete(h, lanes.OpenedHeader)
	if rooms := t.ends.Readers.Rooms(); rooms != "" {
		h[lanes.Header] = []string{rooms}
	}
}

// tellTrailers keeps what the upstream has in its trailers from being taken for ours.
func (t *laneTerms) tellTrailers(h http.Header) {
	if t.ends != nil {
		delete(h, lanes.OpenedHeader)
	}
}

// attemptLanes are what an attempt has of the lanes of its connection to the upstream.
type attemptLanes struct {
	out    *lanes.Out // nil: its messages go in none
	in     *lanes.In  // nil: the connection has none
	opened int64      // messages that the far gateway has opened, by its own word; -1: it has not said
	read   bool       // the response to its end
}

// takeLanes completes the plan and the headers of a request for a connection.
func takeLanes(ends *lanes.Ends, p *plan, h http.Header) (a attemptLanes) {
	if ends == nil {
		return a
	}
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
	if a.in == nil {
		return
	}
	a.out.Told(h[lanes.Header])
	delete(h, lanes.Header)
	a.toldOpened(h)
}

// toldTrailers does that with its trailers.
func (a *attemptLanes) toldTrailers(h http.Header) {
	if a.in != nil {
		a.toldOpened(h)
	}
}

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
