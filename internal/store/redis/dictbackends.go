package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// dictBackend is one of the places in a server where dictionaries are stored: functions or keys.
type dictBackend interface {
	// get returns the dictionary. Its error wraps envelope.ErrDictMissing if the server answers that there is
	// none.
	get(ctx context.Context, number uint32) (*codec.Dict, error)
	// add stores the dictionary unless there is something already, which is no error.
	add(ctx context.Context, d *codec.Dict) error
	// remove deletes what is stored under the number. It is no error if there is nothing.
	remove(ctx context.Context, number uint32) error
}

// ensureStored makes sure that h holds d, and reads it back to verify.
func ensureStored(ctx context.Context, h dictBackend, d *codec.Dict) error {
	if held, err := isStored(ctx, h, d); held || err != nil {
		return err
	}
	if err := h.add(ctx, d); err != nil {
		return err
	}
	held, err := isStored(ctx, h, d)
	if err == nil && !held {
		err = errVanished
	}
	return err
}

func isStored(ctx context.Context, h dictBackend, d *codec.Dict) (bool, error) {
	found, err := h.get(ctx, d.Number())
	if errors.Is(err, envelope.ErrDictMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if found.Hash() != d.Hash() {
		return false, fmt.Errorf("%w: SHA-256 in the server %x, here %x", ErrCollision, found.Hash(), d.Hash())
	}
	return true, nil
}

// dictBackends reads and writes dictionaries in all places of a server. It caches nothing.
type dictBackends struct {
	functions functions
	keys      keys
	archive   archive
	once      *onceLogger
}

func newDictBackends(client goredis.UniversalClient, t *onceLogger) *dictBackends {
	return &dictBackends{functions{client, libraryPrefix}, keys{client, keyPrefix}, newArchive(client), t}
}

// find looks in all places: a server that has functions now may have had none when the values were written, and
// values may still name an archived dictionary. It returns envelope.ErrDictMissing only if all of them lack the
// dictionary.
func (p *dictBackends) find(ctx context.Context, number uint32) (*codec.Dict, error) {
	trouble := error(envelope.ErrDictMissing)
	anyFunction := func(ctx context.Context, number uint32) (*codec.Dict, error) {
		return p.functions.getAny(ctx, number, p.archive.functions)
	}
	for _, get := range []func(context.Context, uint32) (*codec.Dict, error){anyFunction, p.keys.get, p.archive.keys.get} {
		x, err := get(ctx, number)
		switch {
		case err == nil:
			return x, nil
		case isNotHeld(err):
		case !isAnswer(err):
			return nil, err
		case isNotHeld(trouble):
			trouble = err
		}
	}
	return nil, trouble
}

// numbers lists the dictionaries in libraries. It leaves out keys, which would take a scan of all keys.
func (p *dictBackends) numbers(ctx context.Context) (map[uint32]struct{}, error) {
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

// isNotHeld reports whether an error means that a place lacks the dictionary, or that the server does not support
// the place.
func isNotHeld(err error) bool {
	return errors.Is(err, envelope.ErrDictMissing) || errors.Is(err, errNoFunctions)
}

// put stores one dictionary: as a library, or as a key on a server without functions.
func (p *dictBackends) put(ctx context.Context, x *codec.Dict) error {
	err := ensureStored(ctx, p.functions, x)
	if !errors.Is(err, errNoFunctions) {
		return err
	}
	if err := p.checkEviction(ctx); err != nil {
		return err
	}
	return ensureStored(ctx, p.keys, x)
}

// checkEviction returns ErrEvictable if the server may evict keys. It accepts a server that does not report its
// eviction policy.
func (p *dictBackends) checkEviction(ctx context.Context) error {
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
