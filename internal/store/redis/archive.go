package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
)

// The states of a dictionary. A scan can't prove that no value names it (a scan misses values that are
// renamed meanwhile), so a dictionary is never deleted because of a scan:
//
//	live      cinch_dict_0a1b2c3d                           values name it
//	retired   the same, and cinch_retired_0a1b2c3d          no new value names it, once the
//	                                                        leases of all gateways have ended
//	archived  cinch_archive_0a1b2c3d                        out of the way; readers that find
//	                                                        no live one look here
//	forgotten cinch_retired_0a1b2c3d alone, "… forgotten"   erased; values that still name it are lost
//
// The mark, cinch_retired_…, keeps new values from naming the dictionary. Its description is the time of retirement.
// Gateways restore a missing dictionary, a retired one too, but not one whose mark says that it is forgotten. On
// servers without functions there are keys instead: cinch:dict:retired:<number> and cinch:dict:archive:<number>.

// archive holds dictionaries that no value is known to name.
type archive struct {
	functions functions
	keys      keys
}

func newArchive(client goredis.UniversalClient) archive {
	return archive{functions{client, archivePrefix}, keys{client, archiveKeyPrefix}}
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

// Retire asks all gateways to stop naming the dictionary in new values. Each stops at its next check; one
// that is cut off stops when its lease ends.
func (p *dictBackends) Retire(ctx context.Context, number uint32) error {
	return p.retireAt(ctx, number, time.Now())
}

// retireAt is Retire with the time for the mark. It leaves an existing mark unchanged.
func (p *dictBackends) retireAt(ctx context.Context, number uint32, at time.Time) error {
	return dictError("retire", number, p.mark(ctx, number, at.UTC().Format(time.RFC3339)))
}

// erasedSuffix ends the mark of a dictionary that was erased.
const erasedSuffix = " forgotten"

// markErased keeps gateways from storing an erased dictionary again.
func (p *dictBackends) markErased(ctx context.Context, number uint32) error {
	if err := p.Unretire(ctx, number); err != nil { // its mark, if it has one, says retired
		return err
	}
	return p.mark(ctx, number, time.Now().UTC().Format(time.RFC3339)+erasedSuffix)
}

// mark stores a mark unless there is one.
func (p *dictBackends) mark(ctx context.Context, number uint32, text string) error {
	marks := functions{p.functions.client, markPrefix}
	err := marks.load(ctx, fmt.Sprintf(markSource, marks.name(number), text))
	if errors.Is(err, errNoFunctions) {
		err = classify(p.keys.client.SetNX(ctx, markName(number), text, 0).Err())
	}
	return err
}

// Unretire undoes Retire.
func (p *dictBackends) Unretire(ctx context.Context, number uint32) error {
	err := functions{p.functions.client, markPrefix}.remove(ctx, number)
	if errors.Is(err, errNoFunctions) {
		err = classify(p.keys.client.Del(ctx, markName(number)).Err())
	}
	return dictError("undo retirement of", number, err)
}

// retiredSince reports whether the dictionary is marked, and the time in the mark.
func (p *dictBackends) retiredSince(ctx context.Context, number uint32) (since time.Time, marked bool, err error) {
	marks := functions{p.functions.client, markPrefix}
	libraries, err := marks.list(ctx, marks.name(number), false)
	if errors.Is(err, errNoFunctions) {
		since, marked, _, err = p.archive.keys.marked(ctx, number)
		return since, marked, err
	}
	for i := range libraries {
		if l := &libraries[i]; len(l.Functions) == 1 {
			return parseMark(l.Functions[0].Description), true, err
		}
	}
	return since, false, err
}

// Archive moves a dictionary to the archive, where readers still find it. At every moment the dictionary is live, in
// the archive or both, and after a failure Archive may be called again.
func (p *dictBackends) Archive(ctx context.Context, number uint32) error {
	x, err := p.find(ctx, number)
	if err != nil {
		return dictError("archive", number, err)
	}
	return p.archiveThis(ctx, x)
}

// archiveThis is Archive for a dictionary that this server may lack.
func (p *dictBackends) archiveThis(ctx context.Context, x *codec.Dict) error {
	err := p.archive.put(ctx, x)
	if err == nil {
		err = p.removeLive(ctx, x.Number())
	}
	if err == nil {
		return p.Unretire(ctx, x.Number()) // an archived dictionary needs no mark
	}
	return dictError("archive", x.Number(), err)
}

func (a archive) put(ctx context.Context, x *codec.Dict) error {
	err := ensureStored(ctx, a.functions, x)
	if errors.Is(err, errNoFunctions) {
		err = ensureStored(ctx, a.keys, x)
	}
	return err
}

func (p *dictBackends) removeLive(ctx context.Context, number uint32) error {
	return removeFrom(ctx, number, p.functions, p.keys)
}

func removeFrom(ctx context.Context, number uint32, homes ...dictBackend) error {
	for _, h := range homes {
		if err := h.remove(ctx, number); err != nil && !errors.Is(err, errNoFunctions) {
			return err
		}
	}
	return nil
}

// Restore makes a dictionary live, whether it was retired, archived, forgotten or never stored.
func (p *dictBackends) Restore(ctx context.Context, x *codec.Dict) error {
	err := p.put(ctx, x)
	if err == nil {
		err = p.Unretire(ctx, x.Number())
	}
	if err == nil {
		err = removeFrom(ctx, x.Number(), p.archive.functions, p.archive.keys)
	}
	return dictError("restore", x.Number(), err)
}

// Forget erases an archived dictionary for good: every value that names it is lost. For one that is not
// archived it returns ErrLive.
func (p *dictBackends) Forget(ctx context.Context, number uint32) error {
	if err := p.checkArchived(ctx, number); err != nil {
		return dictError("forget", number, err)
	}
	if err := p.markErased(ctx, number); err != nil { // first, or a gateway would put it back
		return dictError("forget", number, err)
	}
	return dictError("forget", number, removeFrom(ctx, number, p.archive.functions, p.archive.keys))
}

// ErrLive: a dictionary is not archived, so it can't be forgotten.
var ErrLive = errors.New("dictionary is not archived")

// ErrNotStored: the server has no such dictionary, live or archived.
var ErrNotStored = errors.New("dictionary is not in the store")

func (p *dictBackends) checkArchived(ctx context.Context, number uint32) error {
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

func dictError(what string, number uint32, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s dictionary %08x: %w", what, number, err)
}
