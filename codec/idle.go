package codec

import "sync"

// idle keeps states that are not in use, by key, up to a total number of bytes. The state that has been idle
// for longest is dropped first. Unlike a sync.Pool it has a limit, and it survives garbage collections, which
// matters for encoders that hold a prepared dictionary.
type idle[K comparable, S any] struct {
	maxBytes int

	mu     sync.Mutex
	bytes  int
	states []idleState[K, S] // oldest first; few, so searched in order
}

type idleState[K comparable, S any] struct {
	key   K
	state S
	bytes int
}

// take returns the state with that key that was used last.
func (p *idle[K, S]) take(key K) (S, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.states) - 1; i >= 0; i-- {
		if found := p.states[i]; found.key == key {
			p.remove(i)
			return found.state, true
		}
	}
	var none S
	return none, false
}

// put hands over a state that holds about that many bytes.
func (p *idle[K, S]) put(key K, state S, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states = append(p.states, idleState[K, S]{key, state, bytes})
	p.bytes += bytes
	for p.bytes > p.maxBytes {
		p.remove(0)
	}
}

func (p *idle[K, S]) remove(i int) {
	p.bytes -= p.states[i].bytes
	copy(p.states[i:], p.states[i+1:])
	last := len(p.states) - 1
	p.states[last] = idleState[K, S]{}
	p.states = p.states[:last]
}
