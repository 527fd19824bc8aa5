package open

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
)

// Options say how a store is walked. The zero value looks at all values and may replace them.
type Options struct {
	// Kind of the store, where the URL leaves it open (unix://); "": as the URL says.
	Kind string
	// Upstream has what a configuration adds to the URL, TLS say; nil: nothing.
	Upstream *gateway.Upstream
	// Shards that tuples move between, as a configuration names them; nil: the server is asked.
	Shards []string
	// Databases of Redis; nil: all that hold keys.
	Databases []int

	// Rules are those by which values are going to be sealed; nil: it is not about sealing.
	Rules *policy.Policy
	// ReadOnly promises that nothing is going to be replaced, so a replica of Tarantool will do.
	ReadOnly bool
	// Everywhere walks over all shards of Tarantool and not only the server that is named.
	Everywhere bool
	// Local are dictionaries beside those in the store; what is found is added. Nil: none.
	Local *dict.Set

	// Of a gateway that walks over its upstream: the dictionaries that it keeps there, in the place of
	// the store's own, and how it connects where Upstream leads to Sentinels.
	Dicts store.Dicts
	Dial  func(context.Context) (net.Conn, error)
}

// Open connects to the store at the URL, to walk over it. What it fails with is explained, but for a
// gateway, whose log says of which store it speaks.
func Open(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	if o.Local == nil {
		o.Local = new(dict.Set)
	}
	s, err := open(ctx, rawURL, o)
	var e *store.Explained
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
	return nil, NoStore(rawURL)
}

// Look connects to the store at the URL, to ask it for single values and for dictionaries.
func Look(ctx context.Context, rawURL string) (store.Access, error) {
	return look(ctx, rawURL, new(dict.Set))
}

func look(ctx context.Context, rawURL string, local *dict.Set) (store.Access, error) {
	switch Kind(rawURL) {
	case Redis:
		a, err := lookRedis(ctx, rawURL, local)
		if err != nil {
			return nil, err
		}
		return a, nil
	case Tarantool:
		return lookTarantool(ctx, rawURL, local)
	}
	return nil, NoStore(rawURL)
}

// Value reads one value. The store stays open, for the dictionary that the value may name: local ones are found first.
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
	s, err := look(ctx, rawURL, local)
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

func badConfig(err error) error { return &store.Explained{Err: err, Class: store.ErrConfig} }
