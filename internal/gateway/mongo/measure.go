package mongo

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// nsCommand identifies messages by their namespace and command. An exchange passes it from a request to its
// replies. It caches the sampled.Kinds that measure such messages.
type nsCommand struct {
	namespace, command []byte
	measured           [2]atomic.Pointer[cachedKind] // by direction
}

// cachedKind is a recent result of a lookup in sampled.Messages.
type cachedKind struct {
	kind *sampled.Kind // nil: too many kinds
	at   time.Time
}

// kindTTL is the time after which a kind is looked up again. sampled.Messages forgets kinds that are not looked
// up.
const kindTTL = 10 * time.Second

// nsCommands holds every nsCommand of a gateway.
type nsCommands struct {
	kinds  *sampled.Messages
	sample bool // measure all messages

	mu  sync.Mutex
	m   map[string]*nsCommand
	key []byte // buffer for the key to look up
}

// Limits of nsCommands. If there are more than maxNSCommands, arbitrary ones are forgotten. Commands whose namespace
// and name together are longer than maxNSCommandName have no nsCommand.
const (
	maxNSCommands    = 4096
	maxNSCommandName = 512 // bytes
)

// get returns the nsCommand of a command; nil if its names are too long.
func (t *nsCommands) get(namespace, command []byte) *nsCommand {
	if len(namespace)+len(command) > maxNSCommandName {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key = append(append(append(t.key[:0], namespace...), 0), command...)
	if found := t.m[string(t.key)]; found != nil {
		return found
	}
	if t.m == nil {
		t.m = map[string]*nsCommand{}
	}
	evict(t.m, maxNSCommands)
	own := bytes.Clone(t.key)
	made := &nsCommand{namespace: own[:len(namespace)], command: own[len(namespace)+1:]}
	t.m[string(own)] = made
	return made
}

// measure records a message; without an nsCommand it does nothing. t.sample must be set.
func (t *nsCommands) measure(nc *nsCommand, d policy.Direction, message []byte, now time.Time) {
	if nc == nil {
		return
	}
	known := &nc.measured[d-policy.Request]
	k := known.Load()
	if k == nil || now.Sub(k.at) >= kindTTL {
		k = &cachedKind{kind: t.kinds.Kind(string(nc.namespace)+" "+string(nc.command), d), at: now}
		known.Store(k)
	}
	if k.kind != nil {
		k.kind.Observe(message)
	}
}
