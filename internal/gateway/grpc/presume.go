package grpc

import (
	"sync"
	"time"
)

// presumeTime is how long what one connection has learnt is presumed of others.
const presumeTime = 10 * time.Minute

// presumption is what the connections to an upstream have learnt of links, for the next one: it has to be a link from its
// first byte. What is said in the log for all of them is here too.
type presumption struct {
	mu   sync.Mutex
	told map[string]bool // by encoding: the log has it

	link     time.Time // when a gateway was last seen to take links
	refused  time.Time // when one last did not
	refusals int       // since one did
}

func newPresumption() *presumption { return &presumption{told: map[string]bool{}} }

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

// first reports whether the log has nothing yet about a matter.
func (p *presumption) first(matter string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told[matter]
	p.told[matter] = true
	return !told
}

// tellUnread logs, once for each encoding, why nothing gets smaller, and reports whether it did.
func (p *pool) tellUnread(encoding string) bool {
	if !p.presumes.first("unread " + encoding) {
		return false
	}
	p.log.Info("the upstream does not read the encoding of a rule, so messages go without: a second gateway beside it would open them, or compressors in it",
		"encoding", encoding, "upstream", p.up.String())
	return true
}

// tellRefusal logs, once for each encoding, that messages are opened that clients have compressed.
func (p *pool) tellRefusal(encoding string) {
	if p.presumes.first("refused " + encoding) {
		p.log.Info("the upstream does not read what clients have compressed, so it is opened for it", "encoding", encoding, "upstream", p.up.String())
	}
}

// tellMute logs once that nobody knows what the upstream reads.
func (p *pool) tellMute() {
	if p.presumes.first("mute") {
		p.log.Info("the upstream does not say which encodings it reads and can't be asked, so messages go without: name those that it reads in upstream_encodings, or give it a health service",
			"upstream", p.up.String())
	}
}
