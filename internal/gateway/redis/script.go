package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// scriptCommands are about the server's scripts: what clients load is remembered.
type scriptCommands struct {
	talk  *conversation
	user  *user
	vault *vault
}

// script watches SCRIPT LOAD, EXISTS and FLUSH. What another gateway's clients flush stays
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
	case resp.IsWord(r.args[1], "exists") && c.vault.seals():
		return c.talk.forward(r, entry{kind: kindLoaded, op: c.loaded(r.args[2:])})
	default:
		return c.talk.forward(r, entry{})
	}
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: after, size: len(r.args[len(r.args)-1])}})
}

// loaded is what becomes of the answer to SCRIPT EXISTS: only scripts that are known here are said
// to exist.
func (c *scriptCommands) loaded(shas [][]byte) *op {
	o := &op{mask: make([]bool, len(shas)), size: len(shas)}
	for i, sha := range shas {
		_, o.mask[i] = c.user.second.scripts.find(sha)
	}
	return o
}
