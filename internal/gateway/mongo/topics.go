package mongo

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/policy"
)

// topic is what messages are about, a namespace and a command. Requests hand it on to their
// replies, and it remembers what counts such messages.
type topic struct {
	space, command []byte
	measured       [2]atomic.Pointer[knownKind] // by direction
	trained        [2]atomic.Pointer[knownKind]
}

// knownKind is what autodict said lately.
type knownKind struct {
	rule *policy.MessageRule
	kind *autodict.Kind // nil: there are too many
	at   time.Time
}

// kindFresh is how long autodict is not asked again. It forgets what it is not asked for.
const kindFresh = 10 * time.Second

// topics are those of a gateway.
type topics struct {
	kinds  *autodict.Messages
	sample bool // all messages are measured

	mu  sync.Mutex
	m   map[string]*topic
	key []byte // of the one that is looked for
}

// What is remembered: beyond it arbitrary topics are forgotten, and nothing is known of those
// whose names together are longer.
const (
	maxTopics    = 4096
	maxTopicName = 512 // bytes
)

// of returns the topic of a command, nil if it has none to remember.
func (t *topics) of(space, command []byte) *topic {
	if len(space)+len(command) > maxTopicName {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key = append(append(append(t.key[:0], space...), 0), command...)
	if found := t.m[string(t.key)]; found != nil {
		return found
	}
	if t.m == nil {
		t.m = map[string]*topic{}
	}
	makeRoom(t.m, maxTopics)
	own := bytes.Clone(t.key)
	made := &topic{space: own[:len(space)], command: own[len(space)+1:]}
	t.m[string(own)] = made
	return made
}

// trainedKind returns what trains the dictionary for a message under a rule; nil: it gets none.
// There is one for each namespace and direction: documents are alike there, and what
// commands add has room in it too. Replies about no collection get none: nothing tells who
// may see what is in them.
func (t *topics) trainedKind(about *topic, r *policy.MessageRule, d policy.Direction, now time.Time) *autodict.Kind {
	if about == nil || r == nil || !r.AutoDict || d == policy.Reply && bytes.HasSuffix(about.space, []byte("."+noCollection)) {
		return nil
	}
	known := &about.trained[d-policy.Request]
	if k := known.Load(); k != nil && k.rule == r && now.Sub(k.at) < kindFresh {
		return k.kind
	}
	kind := t.kinds.Kind(r, string(about.space), d)
	known.Store(&knownKind{r, kind, now})
	return kind
}

// measure counts a message, which took so many bytes on the link, if its topic is remembered. Sample must be set.
func (t *topics) measure(about *topic, d policy.Direction, message []byte, sent int, now time.Time) {
	if about == nil {
		return
	}
	known := &about.measured[d-policy.Request]
	k := known.Load()
	if k == nil || now.Sub(k.at) >= kindFresh {
		k = &knownKind{kind: t.kinds.Kind(nil, string(about.space)+" "+string(about.command), d), at: now}
		known.Store(k)
	}
	if k.kind != nil {
		k.kind.Observe(message, sent)
	}
}
