package grpc

import (
	"sync"
	"time"
)

// presumeTime is how long what one connection has learnt is presumed of others.
const presumeTime = 10 * time.Minute

// refusalTime is how long a connection's refusal of an encoding counts, whatever it says
// later: behind one connection there may be several servers, new and old. What takes no link is
// asked again after so long at first.
const refusalTime = time.Minute

// presumption is what the connections to an upstream have learnt of links, for the next one: it has to be a link from its
// first byte.
type presumption struct {
	mu       sync.Mutex
	link     time.Time // when a gateway was last seen to take links
	refused  time.Time // when one last did not
	refusals int       // since one did
}

// learnLink takes notice of a gateway that says it takes links.
func (p *presumption) learnLink() {
	p.mu.Lock()
	p.link = time.Now()
	p.mu.Unlock()
}

// maxRefusals is how often the time doubles after which what takes no link is asked again: to an hour.
const maxRefusals = 6

// refuseLink takes notice of what took none, and reports whether that is news.
func (p *presumption) refuseLink() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits() {
		return false // other clients were refused at the same time
	}
	p.refused = time.Now()
	p.refusals++
	return p.refusals == 1
}

// madeLink takes notice of a link.
func (p *presumption) madeLink() {
	p.mu.Lock()
	p.refusals = 0
	p.mu.Unlock()
}

// waits reports whether a refusal still counts. p.mu is held.
func (p *presumption) waits() bool {
	return p.refusals > 0 && time.Since(p.refused) < refusalTime<<min(p.refusals-1, maxRefusals)
}

// takesLinks reports whether the next connection should be a link.
func (p *presumption) takesLinks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.link) < presumeTime && !p.waits()
}
