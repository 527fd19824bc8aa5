package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/internal/wire/resp/search"
)

// indexCommands handles commands that may change the server's search indexes, or remove dictionaries.
type indexCommands struct {
	upstream *upstreamWriter
	user     *user
	codec    *valueCodec
	indexes  *indexes
}

// flush forwards a command that may remove dictionaries or search indexes, and then requests a check of both.
func (c *indexCommands) flush(r *request) error {
	return c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: func(answer) {
		c.indexes.kick()
		if c.codec.dicts != nil {
			c.codec.dicts.Kick()
		}
	}}})
}

// createIndex runs FT.CREATE. From now on nothing is compressed under the index. Values that are compressed
// there are decompressed in place first, so that the index sees them.
func (c *indexCommands) createIndex(r *request) error {
	if !c.upstream.awaitReplies() { // a login may be outstanding
		return errSessionEnded
	}
	if c.user.sideConn.wouldRefuse(r.args) {
		return c.upstream.forward(r, entry{})
	}
	x := c.indexes
	prefixes := indexedPrefixes(r.args)
	prefixes = slices.DeleteFunc(prefixes, x.hasIndex)
	runsNow := !c.upstream.tx.open && c.upstream.state.database() == defaultDatabase
	if len(prefixes) > 0 && runsNow && x.hasName(r.args[1]) { // the server changes nothing
		return c.changeIndexes(r)
	}
	x.announce(prefixes)
	if len(prefixes) > 0 && runsNow && c.codec.maySealHashes() {
		if refusal := c.inflateUnder(prefixes); refusal != "" {
			return c.upstream.refuse(refusal)
		}
	}
	return c.changeIndexes(r)
}

// changeIndexes runs a command that may change the server's indexes.
func (c *indexCommands) changeIndexes(r *request) error {
	return c.upstream.forward(r, entry{kind: kindHook, data: &entryData{after: func(answer) { c.indexes.kick() }}})
}

// inflateUnder decompresses fields under prefixes in place, as the gateway's own user or, if that user lacks a right,
// as the client. It returns "" if the index may be created, and otherwise the error for the client.
func (c *indexCommands) inflateUnder(prefixes []string) (refusal string) {
	deadline := time.Now().Add(indexPatience)
	for _, p := range prefixes {
		err := c.awaitSweep(c.indexes.ensureSweep(p, nil), deadline)
		if lacksRight(err) {
			login := c.upstream.state.credentials.Load()
			if login == nil {
				login = &credentials{}
			}
			theirs := c.user.sideConn.dialer.clientAs(login, defaultDatabase, false)
			err = c.awaitSweep(c.indexes.ensureSweep(p, theirs), deadline)
			_ = theirs.Close()
		}
		if err != nil {
			return fmt.Sprintf("ERR cinch: hashes under %q may hold compressed fields, which an index can't read: %v; try again, or run cinch unpack --key '%s' first", p, err, prefixPattern(p))
		}
	}
	return ""
}

// awaitSweep waits for a sweep. If the client stops waiting, the sweep continues.
func (c *indexCommands) awaitSweep(w *sweep, deadline time.Time) error {
	for {
		select {
		case <-w.done:
			return w.err
		case <-c.upstream.life.Context().Done():
			return c.upstream.life.Context().Err()
		case <-time.After(patience):
			if time.Now().After(deadline) {
				return errSweeping
			}
			if gateway.PeerClosed(c.upstream.life.Client) {
				return errSessionEnded
			}
		}
	}
}

// indexPatience limits how long FT.CREATE waits for values under the index to be decompressed in place.
const indexPatience = 30 * time.Second

var errSweeping = fmt.Errorf("decompressing them takes a while")

// indexedPrefixes returns the key prefixes in FT.CREATE. It returns none if the index is not over hashes or
// the server will refuse the request.
func indexedPrefixes(args [][]byte) (prefixes []string) {
	i := 2
	for ; i < len(args) && !resp.IsWord(args[i], "schema"); i++ {
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
				prefixes = append(prefixes, search.IndexPrefix(string(p)))
			}
			i += n
		case resp.IsWord(args[i], "stopwords") && i+1 < len(args):
			n, ok := resp.ParseCount(args[i+1])
			if i++; !ok || n > len(args)-i-1 {
				return nil
			}
			i += n
		case takesWord(args[i]):
			i++
		}
	}
	if i+1 >= len(args) { // no schema, or one without fields
		return nil
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
