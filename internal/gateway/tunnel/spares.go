package tunnel

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

// spares holds links made in advance, which save clients the handshakes.
type spares struct {
	max int

	mu      sync.Mutex
	links   []spare // oldest first
	pending int     // links being made
	closed  bool

	making sync.WaitGroup // counts the links being made
}

type spare struct {
	*link.Link
	connectedAt time.Time
}

// maxSpareAge is well below the time after which an exit closes unused links (Config.OpenTimeout).
const maxSpareAge = time.Minute

// reserve reports whether one more link has to be made, and counts it as pending. If so the caller must call
// put afterwards.
func (p *spares) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.links)+p.pending >= p.max {
		return false
	}
	p.pending++
	p.making.Add(1)
	return true
}

// put adds a link that reserve has counted, or nil if it could not be made.
func (p *spares) put(l *link.Link) {
	defer p.making.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	switch {
	case l == nil:
	case p.closed:
		l.Abort()
	default:
		p.links = append(p.links, spare{l, time.Now()})
		time.AfterFunc(maxSpareAge, p.expire)
	}
}

// take returns the newest usable link, or nil.
func (p *spares) take() *link.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.links) > 0 {
		l := p.links[len(p.links)-1]
		p.links = p.links[:len(p.links)-1]
		if time.Since(l.connectedAt) < maxSpareAge && !gateway.PeerClosed(l.Conn()) {
			return l.Link
		}
		l.Abort()
	}
	return nil
}

// expire closes links that have become too old.
func (p *spares) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.links) > 0 && time.Since(p.links[0].connectedAt) >= maxSpareAge {
		p.links[0].Abort()
		p.links = p.links[1:]
	}
}

func (p *spares) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, l := range p.links {
		l.Abort()
	}
	p.links = nil
}

func (p *spares) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}
