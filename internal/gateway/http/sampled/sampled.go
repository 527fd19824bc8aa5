// Package sampled keeps the last bodies of requests of each kind, in memory, and tells what other codings and a pair of gateways
// would make of them: numbers only.
package sampled

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
)

// Bounds. Paths are named by clients, so there may be any number of them.
const (
	maxKinds  = 64
	others    = "(other paths)"
	lastOnes  = 8        // bodies that are kept of a kind
	maxBody   = 4 << 20  // bytes of one as it came, longer ones are only counted
	maxBytes  = 64 << 20 // of all that are kept
	sizeCount = 33
)

// Samples are those of one gateway. The zero value is ready; its methods may be called from any goroutine.
type Samples struct {
	mu    sync.Mutex
	kinds map[string]*place // by method and path
	bytes int               // kept
}

type place struct {
	sizes     [sizeCount]uint64 // by the number of bits of their length
	bytes     uint64
	last      []keptBody
	next      int // in last, when that is full
	protobufs bool
}

type keptBody struct {
	bytes  []byte
	coding string
}

// Saw takes notice of a body that came in a coding, "" for none, and keeps a copy.
func (s *Samples) Saw(name string, b []byte, coding string, isProtobuf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kind(name)
	k.sizes[min(bits.Len(uint(len(b))), sizeCount-1)]++
	k.bytes += uint64(len(b))
	k.protobufs = isProtobuf
	if len(b) > maxBody || s.bytes+len(b) > maxBytes {
		return
	}
	s.bytes += len(b)
	kept := keptBody{slices.Clone(b), coding}
	if len(k.last) < lastOnes {
		k.last = append(k.last, kept)
		return
	}
	s.bytes -= len(k.last[k.next].bytes)
	k.last[k.next] = kept
	k.next = (k.next + 1) % lastOnes
}

// kind is that of a name. s.mu is held.
func (s *Samples) kind(name string) *place {
	if s.kinds == nil {
		s.kinds = map[string]*place{}
	}
	k, found := s.kinds[name]
	if !found && len(s.kinds) >= maxKinds {
		name = others
		k, found = s.kinds[name]
	}
	if !found {
		k = &place{}
		s.kinds[name] = k
	}
	return k
}

// Measured is what is known of the bodies of one kind.
type Measured struct {
	autodict.KindStatus
	Estimates []autodict.Estimate
}

// Measure compresses what was kept, at the caller's cost. Bodies are opened with open, and may become so many bytes.
func (s *Samples) Measure(c bodies.Coders, open func(b []byte, coding string) ([]byte, error)) []Measured {
	var all []Measured
	for _, k := range s.copied() {
		k.Estimates = k.estimates(c, open)
		all = append(all, k.Measured)
	}
	slices.SortFunc(all, func(a, b Measured) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Method, b.Method))
	})
	return all
}

// copied is a kind as it is now: its bodies don't change.
type copied struct {
	Measured
	bodies    []keptBody // oldest first
	protobufs bool
}

func (s *Samples) copied() (all []copied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.kinds {
		c := copied{bodies: append(slices.Clone(k.last[k.next:]), k.last[:k.next]...), protobufs: k.protobufs}
		c.Method, c.Direction, c.Bytes, c.Sizes = name, "request", k.bytes, []autodict.SizeBucket{}
		for i, n := range k.sizes {
			if n > 0 {
				c.Messages += n
				c.Sizes = append(c.Sizes, autodict.SizeBucket{UpTo: 1<<i - 1, Messages: n})
			}
		}
		c.SampleMessages = len(c.bodies)
		for _, b := range c.bodies {
			c.SampleBytes += len(b.bytes)
		}
		all = append(all, c)
	}
	return all
}
