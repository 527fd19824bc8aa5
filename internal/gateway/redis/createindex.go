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

// indexPatience is how long FT.CREATE waits until what is sealed under the index has been put back.
const indexPatience = 30 * time.Second

// createIndex runs FT.CREATE: nothing is sealed under the index from now on, and what is sealed there
// is put back first, so that the index finds it.
func (s *session) createIndex(r *request) error {
	if s.refusedAtOnce() {
		return s.forward(r, entry{})
	}
	x := s.g.indexes
	prefixes := indexedPrefixes(r.args)
	prefixes = slices.DeleteFunc(prefixes, x.known)
	x.announce(prefixes)
	if len(prefixes) > 0 && !s.tx.open && s.where() == firstSpace && s.g.sealsHashes() {
		if !s.settle() {
			return errGone
		}
		if refusal := s.clearFor(prefixes); refusal != "" {
			return s.refuse(refusal)
		}
	}
	return s.changeIndexes(r)
}

// changeIndexes runs a command after which the server's indexes may be others.
func (s *session) changeIndexes(r *request) error {
	return s.forward(r, entry{kind: kindHook, op: &op{after: func(answer) { s.g.indexes.kick() }}})
}

// clearFor has sealed fields put back under prefixes, as the gateway's own user or, where that lacks
// a right, as the client. It returns why the index must not be created yet.
func (s *session) clearFor(prefixes []string) (refusal string) {
	deadline := time.Now().Add(indexPatience)
	for _, p := range prefixes {
		err := s.awaitSweep(s.g.indexes.clear(p, nil), deadline)
		if err != nil && isNoRight(err.Error()) {
			who := s.who.Load()
			if who == nil {
				who = &credentials{}
			}
			c := s.g.dialAs(who, firstSpace, false)
			err = s.awaitSweep(s.g.indexes.clear(p, c), deadline)
			_ = c.Close()
		}
		if err != nil {
			return fmt.Sprintf("ERR cinch: hashes under %q may hold sealed fields, which an index can't read: %v; try again, or run cinch unpack --key '%s' first", p, err, storeredis.PrefixPattern(p))
		}
	}
	return ""
}

// clear begins a sweep of a prefix that has been announced, unless one has passed since then.
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

var errSweeping = fmt.Errorf("putting them back takes a while")

// awaitSweep waits for a sweep, which goes on when the client does not wait.
func (s *session) awaitSweep(w *sweep, deadline time.Time) error {
	for {
		select {
		case <-w.done:
			return w.err
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(patience):
			if time.Now().After(deadline) {
				return errSweeping
			}
			if gateway.PeerClosed(s.conn) {
				return errGone
			}
		}
	}
}

// indexedPrefixes are what FT.CREATE is told of the keys of hashes; none where the index is over
// something else, or the server will refuse it.
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

// takesWord reports an option of FT.CREATE with one argument, which might read like another option.
func takesWord(option []byte) bool {
	for _, w := range []string{"filter", "language", "language_field", "score", "score_field", "payload_field", "temporary", "indexall"} {
		if resp.IsWord(option, w) {
			return true
		}
	}
	return false
}
