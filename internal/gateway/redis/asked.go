package redis

import "sync"

// askedKeys is how many requests for values a session remembers the keys of. Deeper in a
// pipeline the key of a broken value is not known.
const askedKeys = 16

// asked remembers which keys the latest requests were for, so that the log can name the kind of
// key whose value does not open. The request pump writes, the reply pump reads.
type asked struct {
	requests uint64 // of the request pump: how many expect a reply, or have had it

	mu   sync.Mutex
	ring *[askedKeys]askedKey // nil until the first
}

type askedKey struct {
	request uint64
	length  uint8
	key     [patternLength]byte // its beginning
}

// note remembers the key of the request that is about to be counted, when r asks for values.
func (a *asked) note(r *request, shape shape) {
	if shape == shapeNone || shape >= shapeStreams || len(r.args) < 2 {
		return // the key stands elsewhere
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		a.ring = new([askedKeys]askedKey)
	}
	k := &a.ring[(a.requests+1)%askedKeys]
	k.request = a.requests + 1
	k.length = uint8(copy(k.key[:], r.args[1]))
}

// pattern is the kind of key that a request was for; empty when that is not known.
func (a *asked) pattern(request uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		return ""
	}
	if k := &a.ring[request%askedKeys]; k.request == request {
		return patternOf(k.key[:k.length])
	}
	return ""
}
