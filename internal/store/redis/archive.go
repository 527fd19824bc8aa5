package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
)

// How a dictionary ends. A scan can't prove that no value names it (one under renames
// misses values), so it is never deleted by a scan's word:
//
//	live      cinch_dict_0a1b2c3d                           values name it
//	retired   the same, and cinch_retired_0a1b2c3d          no new value names it, once the
//	                                                        leases of all gateways have ended
//	archived  cinch_archive_0a1b2c3d                        out of the way; readers that find
//	                                                        no live one look here
//	forgotten cinch_retired_0a1b2c3d alone                  erased; what still names it is lost
//
// The mark tells gateways, which put back what they miss, that they shall not; its
// description is the time. On servers without functions these are the keys
// cinch:dict:retired:<number> and cinch:dict:archive:<number>.

// archive is where dictionaries go that no value is known to name.
type archive struct {
	functions functions
	keys      keys
}

func newArchive(client goredis.UniversalClient) archive {
	return archive{functions{client, archivePrefix}, keys{client, archiveKeyPrefix}}
}

// inventory is what a server says it holds.
type inventory struct {
	live, archived map[uint32][32]byte // full hashes
	marked         map[uint32]bool
	whole          bool // it is of everything, not of some dictionaries only
}

func newInventory() inventory {
	return inventory{live: map[uint32][32]byte{}, archived: map[uint32][32]byte{}, marked: map[uint32]bool{}}
}

// retired are those of which no new value shall be made.
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

// isRetired reports that no new value shall name the dictionary.
func (i inventory) isRetired(number uint32) bool {
	_, live := i.live[number]
	_, archived := i.archived[number]
	return i.marked[number] || archived && !live
}

func (i inventory) isForgotten(number uint32) bool {
	_, live := i.live[number]
	_, archived := i.archived[number]
	return i.marked[number] && !live && !archived
}

// inventory asks for everything at once where the server has functions, and otherwise for
// what is said of some dictionaries.
func (p *places) inventory(ctx context.Context, some []*codec.Dict) (inventory, error) {
	found, err := p.functions.inventory(ctx)
	if errors.Is(err, errNoFunctions) {
		return p.keyInventory(ctx, some)
	}
	found.whole = true
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
		}
	}
	return found, err
}

// keyInventory leaves out what is live: that takes reading it.
func (p *places) keyInventory(ctx context.Context, some []*codec.Dict) (inventory, error) {
	found := newInventory()
	for _, x := range some {
		n := x.Number()
		_, marked, err := p.archive.keys.marked(ctx, n)
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
			found.live[n] = [32]byte{} // there, whatever it is
		}
		found.marked[n] = marked
	}
	return found, nil
}

// exists reports whether anything is under a number, without a right to EXISTS.
func (k keys) exists(ctx context.Context, number uint32) (bool, error) {
	b, err := k.client.GetRange(ctx, k.name(number), 0, 0).Result()
	if goredis.HasErrorPrefix(err, "WRONGTYPE") {
		return true, nil
	}
	return b != "", classify(err)
}

// marked reports whether, and since when, a dictionary is retired.
func (k keys) marked(ctx context.Context, number uint32) (since time.Time, marked bool, err error) {
	text, err := k.client.GetRange(ctx, markName(number), 0, 64).Result()
	return parseMark(text), text != "", classify(err)
}

func markName(number uint32) string { return fmt.Sprintf("%s%08x", markKeyPrefix, number) }

func parseMark(text string) time.Time {
	since, _ := time.Parse(time.RFC3339, text)
	return since
}

const markSource = `#!lua name=%[1]s
-- This dictionary of Cinch is retired, or forgotten: gateways don't put it back.
redis.register_function{
  function_name = '%[1]s',
  description = '%[2]s',
  flags = {'no-writes'},
  callback = function() return 0 end,
}
`

// Retire asks all gateways to name the dictionary in no new value. They stop at their next
// check, or when the lease of the last one ends.
func (p *places) Retire(ctx context.Context, number uint32) error {
	return p.retireAt(ctx, number, time.Now())
}

// retireAt is Retire with the time for the mark. A mark that is there stays as it is.
func (p *places) retireAt(ctx context.Context, number uint32, at time.Time) error {
	since := at.UTC().Format(time.RFC3339)
	marks := functions{p.functions.client, markPrefix}
	err := marks.load(ctx, fmt.Sprintf(markSource, marks.name(number), since))
	if errors.Is(err, errNoFunctions) {
		err = classify(p.keys.client.SetNX(ctx, markName(number), since, 0).Err())
	}
	return failed("retire", number, err)
}

// Unretire takes Retire back.
func (p *places) Unretire(ctx context.Context, number uint32) error {
	err := functions{p.functions.client, markPrefix}.remove(ctx, number)
	if errors.Is(err, errNoFunctions) {
		err = classify(p.keys.client.Del(ctx, markName(number)).Err())
	}
	return failed("bring back", number, err)
}

// retiredSince reports whether the dictionary is marked, and the time in the mark.
func (p *places) retiredSince(ctx context.Context, number uint32) (since time.Time, marked bool, err error) {
	marks := functions{p.functions.client, markPrefix}
	libraries, err := marks.list(ctx, marks.name(number), false)
	if errors.Is(err, errNoFunctions) {
		return p.archive.keys.marked(ctx, number)
	}
	for i := range libraries {
		if l := &libraries[i]; len(l.Functions) == 1 {
			return parseMark(l.Functions[0].Description), true, err
		}
	}
	return since, false, err
}

// Archive moves a dictionary where readers still find it. There is no moment at which it
// is in neither place, and it may be called again after it failed.
func (p *places) Archive(ctx context.Context, number uint32) error {
	x, err := p.find(ctx, number)
	if err != nil {
		return failed("archive", number, err)
	}
	return p.archiveThis(ctx, x)
}

// archiveThis is Archive of a dictionary that need not be in this server.
func (p *places) archiveThis(ctx context.Context, x *codec.Dict) error {
	err := p.archive.place(ctx, x)
	if err == nil {
		err = p.removeLive(ctx, x.Number())
	}
	if err == nil {
		return p.Unretire(ctx, x.Number()) // to be archived says enough
	}
	return failed("archive", x.Number(), err)
}

func (a archive) place(ctx context.Context, x *codec.Dict) error {
	err := place(ctx, a.functions, x)
	if errors.Is(err, errNoFunctions) {
		err = place(ctx, a.keys, x)
	}
	return err
}

func (p *places) removeLive(ctx context.Context, number uint32) error {
	return removeFrom(ctx, number, p.functions, p.keys)
}

func removeFrom(ctx context.Context, number uint32, homes ...home) error {
	for _, h := range homes {
		if err := h.remove(ctx, number); err != nil && !errors.Is(err, errNoFunctions) {
			return err
		}
	}
	return nil
}

// Restore makes a dictionary live, whether it was retired, archived, forgotten or never
// there.
func (p *places) Restore(ctx context.Context, x *codec.Dict) error {
	err := p.put(ctx, x)
	if err == nil {
		err = p.Unretire(ctx, x.Number())
	}
	if err == nil {
		err = removeFrom(ctx, x.Number(), p.archive.functions, p.archive.keys)
	}
	return failed("restore", x.Number(), err)
}

// Forget erases an archived dictionary for good: every value that names it is lost. One
// that is not archived is refused with ErrLive.
func (p *places) Forget(ctx context.Context, number uint32) error {
	if err := p.checkArchived(ctx, number); err != nil {
		return failed("forget", number, err)
	}
	if err := p.Retire(ctx, number); err != nil { // first, or a gateway would put it back
		return err
	}
	return failed("forget", number, removeFrom(ctx, number, p.archive.functions, p.archive.keys))
}

// ErrLive: a dictionary is not archived, so it can't be forgotten.
var ErrLive = errors.New("dictionary is not archived")

// ErrNotStored: the server has no such dictionary, live or archived.
var ErrNotStored = errors.New("dictionary is not in the store")

func (p *places) checkArchived(ctx context.Context, number uint32) error {
	infos, err := p.List(ctx)
	if err != nil {
		return err
	}
	archived := false
	for _, i := range infos {
		if i.Number == number && i.State != Archived {
			return ErrLive
		}
		archived = archived || i.Number == number
	}
	if !archived {
		return ErrNotStored
	}
	return nil
}

func failed(what string, number uint32, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s dictionary %08x: %w", what, number, err)
}
