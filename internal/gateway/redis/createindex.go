package redis

import (
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// indexPatience is how long FT.CREATE waits until what is sealed under the index has been put back.
const indexPatience = 30 * time.Second

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
