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
	upstream *upstreamWriter
	user     *user
	codec    *valueCodec
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
				c.user.sideConn.scripts.add(text)
			}
		}
		if c.upstream.tx.open { // EVALSHA may be queued behind it
			c.user.sideConn.scripts.add(text)
		}
	case resp.IsWord(r.args[1], "flush"):
		after = func(answer) { c.user.sideConn.scripts.clear() }
	case resp.IsWord(r.args[1], "exists") && !c.codec.rules().Off:
		return c.upstream.forward(r, entry{kind: kindScriptExists, data: c.scriptExists(r.args[2:])})
	default:
		return c.upstream.forward(r, entry{})
	}
	return c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: after, size: len(r.args[len(r.args)-1])}})
}

// scriptExists returns the data for the reply to SCRIPT EXISTS: only scripts known here are reported to exist.
func (c *scriptCommands) scriptExists(shas [][]byte) *entryData {
	o := &entryData{mask: make([]bool, len(shas)), size: len(shas)}
	for i, sha := range shas {
		_, o.mask[i] = c.user.sideConn.scripts.find(sha)
	}
	return o
}

// scriptCache caches the scripts that clients have loaded, by the name that EVALSHA uses. It holds only what this
// gateway has seen: another gateway, or this one after a restart, does not have them, and the server does not
// return a script's text. So SCRIPT EXISTS reports only scripts that are known here too, and clients load
// the others again. If a text is needed and missing, the answer is NOSCRIPT, as from a restarted server.
type scriptCache struct {
	mu      sync.Mutex
	scripts map[string]*list.Element // of *cachedScript
	used    list.List                // last used in front
	bytes   int
}

type cachedScript struct {
	sha  string
	text []byte
}

// maxBodyBytes limits the memory of all scripts; beyond it the least recently used ones are dropped.
const maxBodyBytes = 8 << 20

func (b *scriptCache) add(text []byte) {
	sha := lua.Name(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.touch(sha) != nil || len(text) > maxBodyBytes {
		return
	}
	for b.bytes+len(text) > maxBodyBytes {
		b.drop(b.used.Back())
	}
	if b.scripts == nil {
		b.scripts = map[string]*list.Element{}
	}
	b.scripts[sha] = b.used.PushFront(&cachedScript{sha, bytes.Clone(text)})
	b.bytes += len(text)
}

// touch finds a script and marks it as used. b.mu must be held.
func (b *scriptCache) touch(sha string) *cachedScript {
	e := b.scripts[sha]
	if e == nil {
		return nil
	}
	b.used.MoveToFront(e)
	return e.Value.(*cachedScript)
}

// drop removes a script. b.mu must be held.
func (b *scriptCache) drop(e *list.Element) {
	old := b.used.Remove(e).(*cachedScript)
	delete(b.scripts, old.sha)
	b.bytes -= len(old.text)
}

func (b *scriptCache) find(sha []byte) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.touch(strings.ToLower(string(sha)))
	if found == nil {
		return nil, false
	}
	return found.text, true
}

func (b *scriptCache) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scripts, b.bytes = nil, 0
	b.used.Init()
}
