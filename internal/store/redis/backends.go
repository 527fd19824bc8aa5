package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// backends accesses the places where a server stores dictionaries. It caches nothing.
type backends struct {
	functions functions
	keys      keys
	archive   archive
	once      *onceLogger
}

func newBackends(client goredis.UniversalClient, t *onceLogger) *backends {
	return &backends{functions{client, libraryPrefix}, keys{client, keyPrefix}, newArchive(client), t}
}

// find looks in all places: a server that has functions now may have had none when the values were written,
// and values may still name an archived dictionary. It returns envelope.ErrDictMissing only if it is in none of
// them.
func (p *backends) find(ctx context.Context, number uint32) (*codec.Dict, error) {
	trouble := error(envelope.ErrDictMissing)
	anyFunction := func(ctx context.Context, number uint32) (*codec.Dict, error) {
		return p.functions.getAny(ctx, number, p.archive.functions)
	}
	for _, get := range []func(context.Context, uint32) (*codec.Dict, error){anyFunction, p.keys.get, p.archive.keys.get} {
		x, err := get(ctx, number)
		switch {
		case err == nil:
			return x, nil
		case isNowhere(err):
		case !isAnswer(err):
			return nil, err
		case isNowhere(trouble):
			trouble = err
		}
	}
	return nil, trouble
}

// numbers lists the dictionaries in libraries. It leaves out keys, which would take a scan of all keys.
func (p *backends) numbers(ctx context.Context) (map[uint32]struct{}, error) {
	libraries, err := p.functions.list(ctx, everyPrefix+"*", false)
	if err != nil {
		return nil, err
	}
	all := make(map[uint32]struct{}, len(libraries))
	for _, l := range libraries {
		for _, home := range []functions{p.functions, p.archive.functions} {
			if number, ok := parseNumber(l.Name, home.prefix); ok {
				all[number] = struct{}{}
			}
		}
	}
	return all, nil
}

// isNowhere reports whether a place lacks the dictionary, or the server lacks the place.
func isNowhere(err error) bool {
	return errors.Is(err, envelope.ErrDictMissing) || errors.Is(err, errNoFunctions)
}

// put stores one dictionary: as a library, or as a key on a server without functions.
func (p *backends) put(ctx context.Context, x *codec.Dict) error {
	err := ensureStored(ctx, p.functions, x)
	if !errors.Is(err, errNoFunctions) {
		return err
	}
	if err := p.checkEviction(ctx); err != nil {
		return err
	}
	return ensureStored(ctx, p.keys, x)
}

// checkEviction accepts a server that does not report its eviction policy.
func (p *backends) checkEviction(ctx context.Context) error {
	err := p.keys.evictionPolicy(ctx)
	switch {
	case err == nil || isUnknownCommand(err):
		p.once.resolve(eviction)
		return nil
	case errors.Is(err, ErrEvictable) || !isAnswer(err):
		return err
	}
	if p.once.isNew(eviction, "unknown") {
		p.once.log.Warn("can't check whether the server may evict dictionaries; its maxmemory-policy must not be allkeys-*", "error", err)
	}
	return nil
}
