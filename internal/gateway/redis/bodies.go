package redis

import (
	"bytes"
	"strings"
	"sync"
)

// bodies remembers the scripts that clients have loaded, by the name that EVALSHA uses.
type bodies struct {
	mu    sync.Mutex
	known map[string][]byte
	bytes int
}

// maxBodyBytes bounds the memory of all scripts; beyond it arbitrary ones are forgotten.
const maxBodyBytes = 8 << 20

func (b *bodies) learn(body []byte) {
	sha := shaOf(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known[sha]; ok || len(body) > maxBodyBytes {
		return
	}
	if b.known == nil {
		b.known = map[string][]byte{}
	}
	for old, text := range b.known {
		if b.bytes+len(body) <= maxBodyBytes {
			break
		}
		delete(b.known, old)
		b.bytes -= len(text)
	}
	b.known[sha] = bytes.Clone(body)
	b.bytes += len(body)
}

func (b *bodies) find(sha []byte) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, ok := b.known[strings.ToLower(string(sha))]
	return body, ok
}

// bodyOf is the text of the script that a request runs, where it is known.
func (s *session) bodyOf(r *request) ([]byte, bool) {
	switch r.cmd.name {
	case "eval", "eval_ro":
		return r.args[1], true
	case "evalsha", "evalsha_ro":
		return s.g.bodies.find(r.args[1])
	}
	return nil, false
}

func (b *bodies) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.bytes = nil, 0
}

// script watches SCRIPT LOAD and SCRIPT FLUSH. What another gateway's clients flush stays
// known here.
func (s *session) script(r *request) error {
	var after func(answer)
	switch {
	case len(r.args) == 3 && isWord(r.args[1], "load"):
		body := bytes.Clone(r.args[2])
		after = func(a answer) {
			if !a.isError() {
				s.g.bodies.learn(body)
			}
		}
	case isWord(r.args[1], "flush"):
		after = func(answer) { s.g.bodies.forget() }
	default:
		return s.forward(r, entry{})
	}
	return s.forward(r, entry{kind: kindHook, op: &op{after: after, size: len(r.args[len(r.args)-1])}})
}
