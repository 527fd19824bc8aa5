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
// replies, and it remembers who counts such messages.
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

// kindFresh is how long autodict is not asked again. It forgets what nobody asks for.
const kindFresh = 10 * time.Second

// topics are those of a gateway.
type topics struct {
	mu sync.Mutex
	m  map[string]*topic
}

// What is remembered: beyond it arbitrary topics are forgotten, and nothing is known of those
// whose names together are longer.
const (
	maxTopics    = 4096
	maxTopicName = 512 // bytes
)

// of returns the topic of a request, nil if it has none to remember.
func (t *topics) of(r *request) *topic {
	if len(r.space)+len(r.name) > maxTopicName {
		return nil
	}
	r.space = append(append(r.space, 0), r.name...) // as the key
	key := r.space
	r.space = r.space[:len(key)-1-len(r.name)]
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.m[string(key)]; found != nil {
		return found
	}
	if t.m == nil {
		t.m = map[string]*topic{}
	}
	for other := range t.m {
		if len(t.m) < maxTopics {
			break
		}
		delete(t.m, other)
	}
	own := []byte(string(key))
	made := &topic{space: own[:len(r.space)], command: own[len(r.space)+1:]}
	t.m[string(key)] = made
	return made
}

// address is that of a message for rules.
func (t *topic) address(d policy.Direction, size int) policy.MessageAddress {
	return policy.MessageAddress{Space: t.space, Command: t.command, Direction: d, Size: size}
}

// trainedKind is who trains the dictionary for a message under a rule; nil: nobody does.
// There is one for each namespace and direction: documents are alike there, and what
// commands add has room in it too. Replies about no collection get none: nothing tells who
// may see what is in them.
func (g *Gateway) trainedKind(t *topic, r *policy.MessageRule, d policy.Direction, now time.Time) *autodict.Kind {
	if t == nil || r == nil || !r.AutoDict || d == policy.Reply && bytes.HasSuffix(t.space, []byte("."+noCollection)) {
		return nil
	}
	known := &t.trained[d-policy.Request]
	if k := known.Load(); k != nil && k.rule == r && now.Sub(k.at) < kindFresh {
		return k.kind
	}
	kind := g.cfg.Kinds.Kind(r, string(t.space), d)
	known.Store(&knownKind{r, kind, now})
	return kind
}

// measure counts a message where that is wanted. It has crossed the link as near when the
// client is a gateway, and as far when it isn't.
func (s *session) measure(t *topic, d policy.Direction, message, near, far []byte, now time.Time) {
	sent := len(far)
	if s.fromClient.on.Load() {
		sent = len(near)
	}
	s.g.measure(t, d, message, sent, now)
}

func (g *Gateway) measure(t *topic, d policy.Direction, message []byte, sent int, now time.Time) {
	if !g.cfg.Sample || t == nil {
		return
	}
	known := &t.measured[d-policy.Request]
	k := known.Load()
	if k == nil || now.Sub(k.at) >= kindFresh {
		k = &knownKind{kind: g.cfg.Kinds.Kind(nil, string(t.space)+" "+string(t.command), d), at: now}
		known.Store(k)
	}
	if k.kind != nil {
		k.kind.Observe(message, sent)
	}
}
