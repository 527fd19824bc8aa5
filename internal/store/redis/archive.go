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
func (d *Dicts) inventory(ctx context.Context, some []*codec.Dict) (inventory, error) {
	found, err := d.functions.inventory(ctx)
	if errors.Is(err, errNoFunctions) {
		return d.keyInventory(ctx, some)
	}
	if err != nil {
		return found, err
	}
	retired := map[uint32]struct{}{}
	for _, numbers := range []map[uint32][32]byte{found.live, found.archived} {
		for n := range numbers {
			if found.isRetired(n) {
				retired[n] = struct{}{}
			}
		}
	}
	for n := range found.marked {
		retired[n] = struct{}{}
	}
	d.retired.Store(&retired)
	return found, nil
}

func (f functions) inventory(ctx context.Context) (inventory, error) {
	found := inventory{map[uint32][32]byte{}, map[uint32][32]byte{}, map[uint32]bool{}}
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
func (d *Dicts) keyInventory(ctx context.Context, some []*codec.Dict) (inventory, error) {
	found := inventory{map[uint32][32]byte{}, map[uint32][32]byte{}, map[uint32]bool{}}
	retired := map[uint32]struct{}{}
	for n := range *d.retired.Load() {
		retired[n] = struct{}{}
	}
	for _, x := range some {
		n := x.Number()
		_, marked, err := d.archive.keys.marked(ctx, n)
		if err != nil {
			return found, err
		}
		live, err := d.keys.exists(ctx, n)
		if err != nil {
			return found, err
		}
		archived, err := d.archive.keys.exists(ctx, n)
		if err != nil {
			return found, err
		}
		if archived {
			found.archived[n] = x.Hash()
		}
		if live && (marked || archived) {
			found.live[n] = [32]byte{} // there, whatever it is
		}
		if found.marked[n] = marked; found.isRetired(n) {
			retired[n] = struct{}{}
		} else {
			delete(retired, n)
		}
	}
	d.retired.Store(&retired)
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
func (d *Dicts) Retire(ctx context.Context, number uint32) error {
	now := time.Now().UTC().Format(time.RFC3339)
	marks := functions{d.functions.client, markPrefix}
	err := marks.load(ctx, fmt.Sprintf(markSource, marks.name(number), now))
	if errors.Is(err, errNoFunctions) {
		err = classify(d.keys.client.SetNX(ctx, markName(number), now, 0).Err())
	}
	return failed("retire", number, err)
}

// Unretire takes Retire back.
func (d *Dicts) Unretire(ctx context.Context, number uint32) error {
	err := functions{d.functions.client, markPrefix}.remove(ctx, number)
	if errors.Is(err, errNoFunctions) {
		err = classify(d.keys.client.Del(ctx, markName(number)).Err())
	}
	return failed("bring back", number, err)
}

// retiredSince reports whether the dictionary is marked, and the time in the mark.
func (d *Dicts) retiredSince(ctx context.Context, number uint32) (since time.Time, marked bool, err error) {
	marks := functions{d.functions.client, markPrefix}
	libraries, err := marks.list(ctx, marks.name(number), false)
	if errors.Is(err, errNoFunctions) {
		return d.archive.keys.marked(ctx, number)
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
func (d *Dicts) Archive(ctx context.Context, number uint32) error {
	x, err := d.find(ctx, number)
	if err != nil {
		return failed("archive", number, err)
	}
	return d.archiveThis(ctx, x)
}

// archiveThis is Archive of a dictionary that need not be in this server.
func (d *Dicts) archiveThis(ctx context.Context, x *codec.Dict) error {
	err := d.archive.place(ctx, x)
	if err == nil {
		err = d.removeLive(ctx, x.Number())
	}
	if err == nil {
		return d.Unretire(ctx, x.Number()) // to be archived says enough
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

func (d *Dicts) removeLive(ctx context.Context, number uint32) error {
	return removeFrom(ctx, number, d.functions, d.keys)
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
func (d *Dicts) Restore(ctx context.Context, x *codec.Dict) error {
	err := place(ctx, d.functions, x)
	if errors.Is(err, errNoFunctions) {
		if err = d.checkEviction(ctx); err == nil {
			err = place(ctx, d.keys, x)
		}
	}
	if err == nil {
		err = d.Unretire(ctx, x.Number())
	}
	if err == nil {
		err = removeFrom(ctx, x.Number(), d.archive.functions, d.archive.keys)
	}
	return failed("restore", x.Number(), err)
}

// Forget erases an archived dictionary for good: every value that names it is lost. One
// that is not archived is refused with ErrLive.
func (d *Dicts) Forget(ctx context.Context, number uint32) error {
	if err := d.checkArchived(ctx, number); err != nil {
		return failed("forget", number, err)
	}
	if err := d.Retire(ctx, number); err != nil { // first, or a gateway would put it back
		return err
	}
	return failed("forget", number, removeFrom(ctx, number, d.archive.functions, d.archive.keys))
}

// ErrLive: a dictionary is not archived, so it can't be forgotten.
var ErrLive = errors.New("dictionary is not archived")

// ErrNotStored: the server has no such dictionary, live or archived.
var ErrNotStored = errors.New("dictionary is not in the store")

func (d *Dicts) checkArchived(ctx context.Context, number uint32) error {
	infos, err := d.List(ctx)
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
