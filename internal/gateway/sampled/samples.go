// Package sampled counts and samples messages by their kind, and estimates from the samples how well other codings
// would compress them. It reports numbers only, never contents.
//
//	messages.go  Messages: counts, and a uniform sample of each kind, of the messages that a gateway sends
//	samples.go   Samples: counts, and the last messages of each kind in their order, of the messages that a gateway
//	             received. The bodies of HTTP requests and replies count as messages too
//	estimate.go  the estimates; those of Samples include a pair of gateways; link.go a simulated link
package sampled

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Limits. Clients choose the names of kinds, so there may be any number of them.
const (
	maxKinds   = 64
	minKept    = 8        // messages kept of a kind, however long they are, within maxBytes
	maxKept    = 64       // messages kept of a kind if they are short
	kindBytes  = 2 << 20  // bytes kept of a kind with more than minKept messages
	MaxMessage = 4 << 20  // bytes of a message as received; longer ones are only counted
	maxBytes   = 64 << 20 // bytes of all kept messages; beyond it the largest kind drops its oldest
	maxMethod  = 512      // bytes of a name
)

// Others is the name that kinds beyond the limit are counted under.
const Others = "(other paths)"

// Name names a kind of messages.
type Name struct {
	Method    string // "POST /path", "/package.Service/Method"
	Direction string // request or reply
}

// Samples holds the samples of one gateway. The zero value is ready to use; its methods may be called from
// any goroutine.
type Samples struct {
	mu    sync.Mutex
	kinds map[Name]*kindSamples
	bytes int // of kept messages
}

type kindSamples struct {
	sizes sizes
	last  []Message // oldest first
	kept  int       // bytes of last
}

// Message is a message as received.
type Message struct {
	Bytes    []byte
	Coding   string // "" for none
	Protobuf bool
}

// Add counts a message, and keeps a copy if the message is not longer than MaxMessage.
func (s *Samples) Add(name Name, m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.countKind(name, len(m.Bytes))
	n := len(m.Bytes)
	if n > MaxMessage {
		return
	}
	for len(k.last) >= maxKept || len(k.last) >= minKept && k.kept+n > kindBytes {
		s.dropOldest(k)
	}
	for s.bytes+n > maxBytes {
		s.dropOldest(s.largest())
	}
	m.Bytes = slices.Clone(m.Bytes)
	k.last, k.kept, s.bytes = append(k.last, m), k.kept+n, s.bytes+n
}

// dropOldest drops the oldest message of a kind. s.mu must be held.
func (s *Samples) dropOldest(k *kindSamples) {
	n := len(k.last[0].Bytes)
	k.last[0] = Message{} // lets the garbage collector free its bytes
	k.last, k.kept, s.bytes = k.last[1:], k.kept-n, s.bytes-n
}

// largest returns the kind of which the most bytes are kept. s.mu must be held.
func (s *Samples) largest() (most *kindSamples) {
	for _, k := range s.kinds {
		if most == nil || k.kept > most.kept {
			most = k
		}
	}
	return most
}

// Count counts a message of n bytes that was forwarded without being inspected.
func (s *Samples) Count(name Name, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countKind(name, n)
}

// countKind counts a message of n bytes and returns its kind. s.mu must be held.
func (s *Samples) countKind(name Name, n int) *kindSamples {
	if s.kinds == nil {
		s.kinds = map[Name]*kindSamples{}
	}
	k, found := s.kinds[name]
	if !found && (len(s.kinds) >= maxKinds || len(name.Method) > maxMethod) {
		name.Method = Others
		k, found = s.kinds[name]
	}
	if !found {
		name.Method = strings.Clone(name.Method) // the original may keep a request in memory
		k = &kindSamples{}
		s.kinds[name] = k
	}
	k.sizes.add(n)
	return k
}

// Bytes returns the bytes of the kept messages.
func (s *Samples) Bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Measured holds the counts and estimates for one kind.
type Measured struct {
	KindStatus
	Estimates []Estimate
}

// Measure tries the methods on the kept messages, in the caller's goroutine.
func (s *Samples) Measure(w *Methods) []Measured {
	kinds := s.snapshots()
	slices.SortFunc(kinds, func(a, b snapshot) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Method, b.Method), strings.Compare(a.Direction, b.Direction))
	})
	var all []Measured
	left := measuredBytes
	for _, k := range kinds {
		var list []decoded
		list, left = k.decode(w, left)
		k.Estimates = estimateAll(w, list, !slices.ContainsFunc(k.last, func(m Message) bool { return !m.Protobuf }))
		all = append(all, k.Measured)
	}
	return all
}

// snapshot is a copy of a kind at one moment. It shares the bytes of the messages, which never change.
type snapshot struct {
	Measured
	last []Message
}

func (s *Samples) snapshots() (all []snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.kinds {
		c := snapshot{last: slices.Clone(k.last)}
		c.KindStatus = k.sizes.status(name.Method, name.Direction)
		c.SampleMessages, c.SampleBytes = len(k.last), k.kept
		all = append(all, c)
	}
	return all
}
