package mongo

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/policy"
)

// topic is the namespace and command of messages. An exchange passes it from a request to its replies. It
// caches the kinds that count such messages.
type topic struct {
	space, command []byte
	measured       [2]atomic.Pointer[knownKind] // by direction
	trained        [2]atomic.Pointer[knownKind]
}

// knownKind is a recent result of autodict.
type knownKind struct {
	rule *policy.MessageRule
	kind *autodict.Kind // nil: too many kinds
	at   time.Time
}

// kindFresh is the time after which autodict is asked again. It forgets kinds that are not asked for.
const kindFresh = 10 * time.Second

// topics holds the topics of a gateway.
type topics struct {
	kinds  *autodict.Messages
	sample bool // measure all messages

	mu  sync.Mutex
	m   map[string]*topic
	key []byte // buffer for the key to look up
}

// Limits. Beyond maxTopics arbitrary topics are forgotten. Commands whose namespace and name together are
// longer than maxTopicName have no topic.
const (
	maxTopics    = 4096
	maxTopicName = 512 // bytes
)

// of returns the topic of a command; nil if its names are too long.
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

// trainedKind returns the kind that trains the dictionary for a message under a rule; nil: none. There is one
// for each namespace and direction, whose documents are similar; a dictionary also has room for the fields of
// commands. Replies without a collection get none, because it is unknown which clients may see their
// contents.
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

// measure records a message that took sent bytes on the link; without a topic it does nothing. t.sample must
// be set.
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
