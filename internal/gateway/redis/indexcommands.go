package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// indexCommands may change the server's search indexes, or remove dictionaries.
type indexCommands struct {
	talk    *conversation
	user    *user
	vault   *vault
	indexes *indexes
}

// flush watches the commands that may remove dictionaries or search indexes.
func (c *indexCommands) flush(r *request) error {
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(answer) {
		c.indexes.kick()
		if c.vault.dicts != nil {
			c.vault.dicts.Kick()
		}
	}}})
}

// createIndex runs FT.CREATE: nothing is sealed under the index from now on, and what is sealed there
// is put back first, so that the index finds it.
func (c *indexCommands) createIndex(r *request) error {
	if !c.talk.settle() { // it may be logging in
		return errGone
	}
	if c.user.second.refusedAtOnce(r.args) {
		return c.talk.forward(r, entry{})
	}
	x := c.indexes
	prefixes := indexedPrefixes(r.args)
	prefixes = slices.DeleteFunc(prefixes, x.known)
	x.announce(prefixes)
	if len(prefixes) > 0 && !c.talk.tx.open && c.talk.st.where() == firstSpace && c.vault.sealsHashes() {
		if refusal := c.clearFor(prefixes); refusal != "" {
			return c.talk.refuse(refusal)
		}
	}
	return c.changeIndexes(r)
}

// changeIndexes runs a command after which the server's indexes may be others.
func (c *indexCommands) changeIndexes(r *request) error {
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(answer) { c.indexes.kick() }}})
}

// clearFor has sealed fields put back under prefixes, as the gateway's own user or, where that lacks
// a right, as the client. It returns why the index must not be created yet.
func (c *indexCommands) clearFor(prefixes []string) (refusal string) {
	deadline := time.Now().Add(indexPatience)
	for _, p := range prefixes {
		err := c.awaitSweep(c.indexes.clear(p, nil), deadline)
		if err != nil && isNoRight(err.Error()) {
			who := c.talk.st.who.Load()
			if who == nil {
				who = &credentials{}
			}
			theirs := c.user.second.dialer.as(who, firstSpace, false)
			err = c.awaitSweep(c.indexes.clear(p, theirs), deadline)
			_ = theirs.Close()
		}
		if err != nil {
			return fmt.Sprintf("ERR cinch: hashes under %q may hold sealed fields, which an index can't read: %v; try again, or run cinch unpack --key '%s' first", p, err, storeredis.PrefixPattern(p))
		}
	}
	return ""
}

// awaitSweep waits for a sweep, which goes on when the client does not wait.
func (c *indexCommands) awaitSweep(w *sweep, deadline time.Time) error {
	for {
		select {
		case <-w.done:
			return w.err
		case <-c.talk.life.Context().Done():
			return c.talk.life.Context().Err()
		case <-time.After(patience):
			if time.Now().After(deadline) {
				return errSweeping
			}
			if gateway.PeerClosed(c.talk.life.Client) {
				return errGone
			}
		}
	}
}
