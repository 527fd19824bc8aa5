package open

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
)

// Options configure a walk over a store. The zero value reads all values and may replace them.
type Options struct {
	// Kind is the kind of store if the URL leaves it open (unix://); "": from the URL.
	Kind string
	// Upstream adds settings from a configuration to the URL, such as TLS; nil: none.
	Upstream *endpoint.Upstream
	// Shards are the configured shards that tuples move between; nil: ask the server.
	Shards []string
	// Databases are the Redis databases to walk; nil: all that hold keys.
	Databases []int

	// Rules are the rules by which values will be compressed; nil: none will.
	Rules *policy.Policy
	// ReadOnly promises that nothing will be replaced, so that a Tarantool replica suffices.
	ReadOnly bool
	// Everywhere walks over all Tarantool shards, not only the named server.
	Everywhere bool
	// Local holds dictionaries besides those in the store; fetched ones are added. Nil: none.
	Local *dict.Set

	// Dicts and Dial are set by a gateway that walks over its upstream. Dicts replaces the store's own
	// dictionaries; Dial connects if Upstream leads to Sentinels.
	Dicts store.Dicts
	Dial  func(context.Context) (net.Conn, error)
}

// Open connects to the store at the URL for a walk. Its errors have a hint and the store's name, except for a
// gateway (Dicts set), whose log names the store.
func Open(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	if o.Local == nil {
		o.Local = new(dict.Set)
	}
	s, err := open(ctx, rawURL, o)
	var e *store.HintedError
	if o.Dicts != nil && errors.As(err, &e) {
		err = e.Err
	}
	return s, err
}

func open(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	switch kind := cmp.Or(o.Kind, Kind(rawURL)); kind {
	case Redis:
		return openRedis(ctx, rawURL, o)
	case Tarantool:
		return openTarantool(ctx, rawURL, o)
	}
	return nil, NotStoreURL(rawURL)
}

// OpenAccess connects to the store at the URL to read single values and dictionaries.
func OpenAccess(ctx context.Context, rawURL string) (store.Access, error) {
	return openAccess(ctx, rawURL, new(dict.Set))
}

func openAccess(ctx context.Context, rawURL string, local *dict.Set) (store.Access, error) {
	switch Kind(rawURL) {
	case Redis:
		a, err := openRedisAccess(ctx, rawURL, local)
		if err != nil {
			return nil, err
		}
		return a, nil
	case Tarantool:
		return openTarantoolAccess(ctx, rawURL, local)
	}
	return nil, NotStoreURL(rawURL)
}

// Value reads one value. It returns the store open, so that the caller can fetch the dictionary that the
// value names. Dictionaries in local are found first.
func Value(ctx context.Context, rawURL string, at store.Address, local *dict.Set) ([]byte, store.Access, error) {
	var err error
	switch Kind(rawURL) {
	case Redis:
		err = storeredis.CheckAddress(at)
	case Tarantool:
		err = tarantool.CheckAddress(at)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := openAccess(ctx, rawURL, local)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.Value(ctx, at)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return b, s, nil
}

func badConfig(err error) error { return &store.HintedError{Err: err, Class: store.ErrConfig} }
