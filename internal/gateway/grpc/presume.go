package grpc

import (
	"sync"
	"time"
)

// presumeTime is how long what one connection has learnt is presumed of others.
const presumeTime = 10 * time.Minute

// presumption is what servers behind an upstream were last seen to read, by whichever
// connection. New connections begin with it: without, each would send plain messages until
// one of its calls has found out. It is no more than likely, as there may be other servers
// behind the same name, so a call that relies on it must be able to start again, and what a
// connection's own server says counts for more.
type presumption struct {
	mu   sync.Mutex
	read map[string]time.Time // by encoding, when that was last seen
	told map[string]bool      // the log has it that they are refused

	link     time.Time // when a gateway was last seen to take links
	refused  time.Time // when one last did not
	refusals int       // since one did
}

func newPresumption() *presumption {
	return &presumption{read: map[string]time.Time{}, told: map[string]bool{}}
}

func (p *presumption) reads(encoding string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.read[encoding]
	return ok && time.Since(at) < presumeTime
}

func (p *presumption) learn(encodings ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, e := range encodings {
		if canOpen(e) {
			p.read[e] = now
		}
	}
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

// forget is for what a server has refused: the next connection asks for itself.
func (p *presumption) forget(encoding string) {
	p.mu.Lock()
	delete(p.read, encoding)
	p.mu.Unlock()
}

// firstRefusal reports whether nobody was told yet that an encoding is refused.
func (p *presumption) firstRefusal(encoding string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told[encoding]
	p.told[encoding] = true
	return !told
}

// tellRefusal logs, once for each encoding, why nothing gets smaller.
func (p *pool) tellRefusal(encoding string) {
	if p.presumes.firstRefusal(encoding) {
		p.log.Info("the upstream does not read what a rule says, so messages go without: a second gateway beside it would open them, or compressors in it",
			"encoding", encoding, "upstream", p.up.String())
	}
}
