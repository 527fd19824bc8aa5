package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/store"
)

// Access is a connection to a server, past any gateway. Its user needs rights only for the methods that are called.
// It implements store.Access, and looks up the other primaries of a cluster when it needs them. Close it after use.
type Access struct {
	client  *goredis.Client
	name    string          // without credentials
	options goredis.Options // of client; used to make more clients

	local      *dict.Set       // searched before the server is asked; fetched dictionaries are added
	dictClient *goredis.Client // for database 0, which holds the dictionaries; connects on first use
	own        *Dicts

	mu      sync.Mutex
	nodes   *StoreDicts // nil: not looked up yet
	cluster *Store      // nil: a standalone server, or not looked up yet
}

var _ store.Access = (*Access)(nil)

// NewAccess connects to the server.
func NewAccess(ctx context.Context, name string, o goredis.Options, local *dict.Set) (*Access, error) {
	client, forDicts := o, o // two copies, since NewClient modifies its options
	forDicts.DB = 0
	a := &Access{name: name, options: o, local: local, client: goredis.NewClient(&client), dictClient: goredis.NewClient(&forDicts)}
	a.own = newToolDicts(a.dictClient, a.local)
	if err := a.client.Ping(ctx).Err(); err != nil {
		a.Close()
		return nil, a.Explain(err)
	}
	return a, nil
}

// Name implements store.Access.
func (a *Access) Name() string { return a.name }

// Options returns the options of the connection, from which callers make more clients.
func (a *Access) Options() goredis.Options { return a.options }

// Explain implements store.Access.
func (a *Access) Explain(err error) error { return Explain(a.name, err) }

// Close implements store.Access.
func (a *Access) Close() {
	_ = a.client.Close()
	_ = a.dictClient.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cluster != nil {
		a.cluster.Close()
	}
}

// DictAdmin implements store.Access.
func (a *Access) DictAdmin() store.DictAdmin {
	return &dictAdmin{name: a.name, nodes: a.discover, first: a.own, explain: a.Explain}
}

// discover returns the dictionaries of all primaries of a cluster, or of the one server.
func (a *Access) discover(ctx context.Context) (*StoreDicts, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes != nil {
		return a.nodes, nil
	}
	info, err := a.client.Info(ctx, "cluster").Result()
	var answer goredis.Error
	if err != nil && !errors.As(err, &answer) {
		return nil, err
	}
	if !strings.Contains(info, "cluster_enabled:1") { // or the user may not call INFO: then Count fails too
		scan := a.options
		scan.PoolSize = 1
		a.nodes = &StoreDicts{local: a.local, nodes: []dictNode{{a.name, a.own, &scan}}}
		return a.nodes, nil
	}
	if a.cluster, err = Open(ctx, OpenOptions{Client: a.options, Local: a.local}); err != nil {
		return nil, err
	}
	a.nodes = a.cluster.dicts.Load()
	return a.nodes, nil
}

// Value implements store.Access: it reads the string at a key, or a field of the hash there.
func (a *Access) Value(ctx context.Context, at store.Address) ([]byte, error) {
	b, err := readValue(ctx, a.client, a.name, at)
	if addr, moved := goredis.IsMovedError(err); moved { // a cluster node without the key's slot
		o := a.options
		o.Addr = addr
		owner := goredis.NewClient(&o)
		defer owner.Close()
		return readValue(ctx, owner, a.name, at)
	}
	return b, err
}

// CheckAddress returns an error if the address lacks a key.
func CheckAddress(at store.Address) error {
	if at.Key != "" {
		return nil
	}
	return &store.HintedError{Err: errors.New("no key given"), Class: store.ErrUsage, Help: "cinch inspect redis://host:6379 KEY"}
}

func readValue(ctx context.Context, c goredis.UniversalClient, name string, at store.Address) (b []byte, err error) {
	what := fmt.Sprintf("key %q", at.Key)
	if at.Field != "" {
		what = fmt.Sprintf("field %q of key %q", at.Field, at.Key)
		b, err = c.HGet(ctx, at.Key, at.Field).Bytes()
	} else {
		b, err = c.Get(ctx, at.Key).Bytes()
	}
	switch {
	case errors.Is(err, goredis.Nil):
		return nil, &store.HintedError{Server: name, Err: fmt.Errorf("no %s", what), Help: "the database is the number at the end of the URL: redis://host:6379/0"}
	case goredis.HasErrorPrefix(err, "WRONGTYPE") && at.Field == "":
		kind, _ := c.Type(ctx, at.Key).Result()
		if kind == "hash" {
			return nil, &store.HintedError{Server: name, Err: fmt.Errorf("%s is a hash", what), Help: "name a field of it with --field"}
		}
		return nil, &store.HintedError{Server: name, Err: fmt.Errorf("%s holds a %s; only strings and hashes can be shown", what, cmp.Or(kind, "value of another type"))}
	}
	return b, Explain(name, err)
}
