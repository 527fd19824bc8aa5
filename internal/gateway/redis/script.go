package redis

import (
	"bytes"
	"container/list"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// scriptCommands handles SCRIPT and remembers the scripts that clients load.
type scriptCommands struct {
	talk  *conversation
	user  *user
	vault *vault
}

// script forwards SCRIPT and handles LOAD, EXISTS and FLUSH. Scripts flushed through another gateway stay
// known here.
func (c *scriptCommands) script(r *request) error {
	var after func(answer)
	switch {
	case len(r.args) == 3 && resp.IsWord(r.args[1], "load"):
		text := bytes.Clone(r.args[2])
		after = func(a answer) {
			if !a.isError() {
				c.user.second.scripts.learn(text)
			}
		}
		if c.talk.tx.open { // EVALSHA may be queued behind it
			c.user.second.scripts.learn(text)
		}
	case resp.IsWord(r.args[1], "flush"):
		after = func(answer) { c.user.second.scripts.forget() }
	case resp.IsWord(r.args[1], "exists") && !c.vault.rules().Off:
		return c.talk.forward(r, entry{kind: kindLoaded, op: c.loaded(r.args[2:])})
	default:
		return c.talk.forward(r, entry{})
	}
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: after, size: len(r.args[len(r.args)-1])}})
}

// loaded returns the op for the reply to SCRIPT EXISTS: only scripts known here are reported to exist.
func (c *scriptCommands) loaded(shas [][]byte) *op {
	o := &op{mask: make([]bool, len(shas)), size: len(shas)}
	for i, sha := range shas {
		_, o.mask[i] = c.user.second.scripts.find(sha)
	}
	return o
}

// bodies caches the scripts that clients have loaded, by the name that EVALSHA uses. It holds only what this
// gateway has seen: another gateway, or this one after a restart, does not have them, and the server does not
// return a script's text. So SCRIPT EXISTS reports only scripts that are known here too (clients load the
// others again), and if a text is needed and missing the answer is NOSCRIPT, as from a restarted server.
type bodies struct {
	mu    sync.Mutex
	known map[string]*list.Element // of *body
	used  list.List                // last used in front
	bytes int
}

type body struct {
	sha  string
	text []byte
}

// maxBodyBytes limits the memory of all scripts; beyond it the least recently used ones are dropped.
const maxBodyBytes = 8 << 20

func (b *bodies) learn(text []byte) {
	sha := lua.Name(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.touch(sha) != nil || len(text) > maxBodyBytes {
		return
	}
	for b.bytes+len(text) > maxBodyBytes {
		b.drop(b.used.Back())
	}
	if b.known == nil {
		b.known = map[string]*list.Element{}
	}
	b.known[sha] = b.used.PushFront(&body{sha, bytes.Clone(text)})
	b.bytes += len(text)
}

// touch finds a script and marks it as used. b.mu must be held.
func (b *bodies) touch(sha string) *body {
	e := b.known[sha]
	if e == nil {
		return nil
	}
	b.used.MoveToFront(e)
	return e.Value.(*body)
}

// drop removes a script. b.mu must be held.
func (b *bodies) drop(e *list.Element) {
	old := b.used.Remove(e).(*body)
	delete(b.known, old.sha)
	b.bytes -= len(old.text)
}

func (b *bodies) find(sha []byte) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.touch(strings.ToLower(string(sha)))
	if found == nil {
		return nil, false
	}
	return found.text, true
}

func (b *bodies) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.bytes = nil, 0
	b.used.Init()
}
