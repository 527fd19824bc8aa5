package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
)

// inventory lists what a server holds.
type inventory struct {
	live, archived map[uint32][32]byte // full hashes
	marked, erased map[uint32]bool     // erased ones are marked too
	complete       bool                // it covers everything, not only some dictionaries
}

func newInventory() inventory {
	return inventory{live: map[uint32][32]byte{}, archived: map[uint32][32]byte{}, marked: map[uint32]bool{}, erased: map[uint32]bool{}}
}

// retired returns the dictionaries that new values must not name.
func (i inventory) retired() map[uint32]struct{} {
	all := map[uint32]struct{}{}
	for _, numbers := range []map[uint32][32]byte{i.live, i.archived} {
		for n := range numbers {
			if i.isRetired(n) {
				all[n] = struct{}{}
			}
		}
	}
	for n, marked := range i.marked {
		if marked {
			all[n] = struct{}{}
		}
	}
	return all
}

// isRetired reports whether new values must not name the dictionary.
func (i inventory) isRetired(number uint32) bool {
	_, live := i.live[number]
	_, archived := i.archived[number]
	return i.marked[number] || archived && !live
}

func (i inventory) isForgotten(number uint32) bool {
	return i.erased[number] && !i.isHeld(number)
}

// isLost reports whether a retired dictionary that was not erased is missing.
func (i inventory) isLost(number uint32) bool {
	return i.marked[number] && !i.erased[number] && !i.isHeld(number)
}

func (i inventory) isHeld(number uint32) bool {
	_, live := i.live[number]
	_, archived := i.archived[number]
	return live || archived
}

// states returns the state of each dictionary, also of forgotten ones.
func (i inventory) states() map[uint32]State {
	all := map[uint32]State{}
	for n, marked := range i.marked {
		if marked {
			all[n] = Retired
		}
		if i.erased[n] {
			all[n] = forgotten
		}
	}
	for n := range i.archived {
		all[n] = Archived
	}
	for n := range i.live {
		if all[n] = Live; i.marked[n] {
			all[n] = Retired
		}
	}
	return all
}

// inventory lists everything, with one command, if the server has functions. Otherwise it lists only the
// dictionaries in some.
func (p *dictBackends) inventory(ctx context.Context, some []*codec.Dict) (inventory, error) {
	found, err := p.functions.inventory(ctx)
	if errors.Is(err, errNoFunctions) {
		return p.keyInventory(ctx, some)
	}
	found.complete = true
	return found, err
}

func (f functions) inventory(ctx context.Context) (inventory, error) {
	found := newInventory()
	libraries, err := f.list(ctx, everyPrefix+"*", false)
	for i := range libraries {
		l := &libraries[i]
		hash, _, described := librarySum(l)
		if n, ok := parseNumber(l.Name, libraryPrefix); ok && described {
			found.live[n] = hash
		} else if n, ok := parseNumber(l.Name, archivePrefix); ok && described {
			found.archived[n] = hash
		} else if n, ok := parseNumber(l.Name, markPrefix); ok {
			found.marked[n] = true
			found.erased[n] = len(l.Functions) == 1 && strings.HasSuffix(l.Functions[0].Description, erasedSuffix)
		}
	}
	return found, err
}

// keyInventory lists a live dictionary only if it is also marked or archived: checking the content would
// require reading it.
func (p *dictBackends) keyInventory(ctx context.Context, some []*codec.Dict) (inventory, error) {
	found := newInventory()
	for _, x := range some {
		n := x.Number()
		_, marked, erased, err := p.archive.keys.marked(ctx, n)
		if err != nil {
			return found, err
		}
		live, err := p.keys.exists(ctx, n)
		if err != nil {
			return found, err
		}
		archived, err := p.archive.keys.exists(ctx, n)
		if err != nil {
			return found, err
		}
		if archived {
			found.archived[n] = x.Hash()
		}
		if live && (marked || archived) {
			found.live[n] = [32]byte{} // exists, whatever its content
		}
		found.marked[n], found.erased[n] = marked, erased
	}
	return found, nil
}

// exists reports whether there is a value under a number. It needs no right to EXISTS.
func (k keys) exists(ctx context.Context, number uint32) (bool, error) {
	b, err := k.client.GetRange(ctx, k.name(number), 0, 0).Result()
	if goredis.HasErrorPrefix(err, "WRONGTYPE") {
		return true, nil
	}
	return b != "", classify(err)
}

// marked reports whether a dictionary is retired, and since when, or erased.
func (k keys) marked(ctx context.Context, number uint32) (since time.Time, marked, erased bool, err error) {
	text, err := k.client.GetRange(ctx, markName(number), 0, 64).Result()
	return parseMark(text), text != "", strings.HasSuffix(text, erasedSuffix), classify(err)
}

func markName(number uint32) string { return fmt.Sprintf("%s%08x", markKeyPrefix, number) }

func parseMark(text string) time.Time {
	since, _ := time.Parse(time.RFC3339, strings.TrimSuffix(text, erasedSuffix))
	return since
}
