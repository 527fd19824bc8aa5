package redis

import (
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// indexCommands handles commands that may change the server's search indexes, or remove dictionaries.
type indexCommands struct {
	talk    *conversation
	user    *user
	vault   *vault
	indexes *indexes
}

// flush forwards commands that may remove dictionaries or search indexes, and then has both checked.
func (c *indexCommands) flush(r *request) error {
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(answer) {
		c.indexes.kick()
		if c.vault.dicts != nil {
			c.vault.dicts.Kick()
		}
	}}})
}

// createIndex runs FT.CREATE. From now on nothing is compressed under the index. Values that are compressed
// there are decompressed in place first, so that the index sees them.
func (c *indexCommands) createIndex(r *request) error {
	if !c.talk.settle() { // a login may be outstanding
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

// changeIndexes runs a command that may change the server's indexes.
func (c *indexCommands) changeIndexes(r *request) error {
	return c.talk.forward(r, entry{kind: kindHook, op: &op{after: func(answer) { c.indexes.kick() }}})
}

// clearFor has compressed fields under prefixes decompressed in place, as the gateway's own user or, if that
// lacks a right, as the client. It returns "" or why the index must not be created yet.
func (c *indexCommands) clearFor(prefixes []string) (refusal string) {
	deadline := time.Now().Add(indexPatience)
	for _, p := range prefixes {
		err := c.awaitSweep(c.indexes.clear(p, nil), deadline)
		if lacksRight(err) {
			who := c.talk.st.who.Load()
			if who == nil {
				who = &credentials{}
			}
			theirs := c.user.second.dialer.as(who, firstSpace, false)
			err = c.awaitSweep(c.indexes.clear(p, theirs), deadline)
			_ = theirs.Close()
		}
		if err != nil {
			return fmt.Sprintf("ERR cinch: hashes under %q may hold compressed fields, which an index can't read: %v; try again, or run cinch unpack --key '%s' first", p, err, storeredis.PrefixPattern(p))
		}
	}
	return ""
}

// awaitSweep waits for a sweep, which continues if the client stops waiting.
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

// indexPatience limits how long FT.CREATE waits for values under the index to be decompressed in place.
const indexPatience = 30 * time.Second

// clear starts a sweep of an announced prefix, unless one has succeeded or is running.
func (x *indexes) clear(prefix string, as *goredis.Client) *sweep {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w := x.sweeps[prefix]; w != nil && (!w.ended() || w.err == nil) {
		return w
	}
	c := x.client
	if as != nil {
		c = as
	}
	w := x.begin(prefix, c, false, false)
	w.again = true
	return w
}

var errSweeping = fmt.Errorf("decompressing them takes a while")

// indexedPrefixes returns the key prefixes in FT.CREATE. It returns none if the index is not over hashes or
// the server will refuse the request.
func indexedPrefixes(args [][]byte) (prefixes []string) {
	for i := 2; i < len(args) && !resp.IsWord(args[i], "schema"); i++ {
		switch {
		case resp.IsWord(args[i], "on") && i+1 < len(args):
			if i++; !resp.IsWord(args[i], "hash") {
				return nil
			}
		case resp.IsWord(args[i], "prefix") && i+1 < len(args):
			n, ok := resp.ParseCount(args[i+1])
			if i++; !ok || n > len(args)-i-1 {
				return nil
			}
			for _, p := range args[i+1 : i+1+n] {
				prefixes = append(prefixes, storeredis.IndexPrefix(string(p)))
			}
			i += n
		case takesWord(args[i]):
			i++
		}
	}
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes)
}

// takesWord reports whether an option of FT.CREATE has one argument, which might look like another option.
func takesWord(option []byte) bool {
	for _, w := range []string{"filter", "language", "language_field", "score", "score_field", "payload_field", "temporary", "indexall"} {
		if resp.IsWord(option, w) {
			return true
		}
	}
	return false
}
