package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

// storeAccess is a command's own connection to a store, past any gateway.
// Close it after use.
type storeAccess struct {
	client *redis.Client
	name   string // without credentials

	options redis.Options // of client, for more of its kind

	dictClient *redis.Client // dictionaries are not in the database that the URL names; it connects when used
	dicts      *storeredis.Dicts
}

var _ cinch.Dictionaries = (*storeAccess)(nil)

func isStoreURL(s string) bool {
	for _, scheme := range []string{"redis://", "rediss://", "unix://"} {
		if strings.HasPrefix(s, scheme) {
			return true
		}
	}
	return open.IsSeveral(s)
}

// noStore says what the URL of a store looks like.
func noStore(rawURL string) error {
	return wrongUsage(ui.WithHint(fmt.Errorf("%q is no store", redactURL(rawURL)),
		"write redis://host:6379, rediss://…, unix:///path, redis+cluster://host,host,…, redis+sentinel://sentinel,sentinel,…/name or tarantool://host:3301"))
}

// openStore connects to the store at the URL.
func openStore(ctx context.Context, rawURL string) (*storeAccess, error) {
	name := redactURL(rawURL)
	o, err := accessOptions(ctx, rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = open.AnswerTimeout, open.AnswerTimeout, open.AnswerTimeout
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DisableIdentity, o.ContextTimeoutEnabled = true, true
	s := &storeAccess{name: name, options: *o} // NewClient fills in more, not to be shared
	forDicts := *o
	forDicts.DB = 0
	s.client, s.dictClient = redis.NewClient(o), redis.NewClient(&forDicts)
	s.dicts = storeredis.NewDicts(storeredis.DictsOptions{Client: s.dictClient, Timeout: open.AnswerTimeout, AskAlways: true})
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.Close()
		return nil, s.failure(err)
	}
	return s, nil
}

// accessOptions say how to connect to the store.
func accessOptions(ctx context.Context, rawURL string) (*redis.Options, error) {
	if open.IsSeveral(rawURL) {
		servers, err := open.SeveralServers(rawURL)
		if err != nil {
			return nil, err
		}
		up, err := open.FirstServer(ctx, servers, servers.Hosts[0])
		if err != nil {
			return nil, withCode(exitUnreachable, ui.WithHint(err, "are the servers running, and can they be reached from here?"))
		}
		o := open.ClientOptions(up)
		return &o, nil
	}
	o, err := redis.ParseURL(rawURL)
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the outer error repeats the URL with its password
	}
	return o, err
}

func redactURL(rawURL string) string {
	if _, shards := splitServers(rawURL); open.IsSeveral(rawURL) || shards != nil {
		return open.SeveralName(rawURL)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return "the store"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// Close ends the connections.
func (s *storeAccess) Close() {
	_ = s.client.Close()
	_ = s.dictClient.Close()
}

// value reads the string at key, or a field of the hash there. No such key is an error.
func (s *storeAccess) value(ctx context.Context, key, field string) ([]byte, error) {
	what := fmt.Sprintf("key %q", key)
	if field != "" {
		what = fmt.Sprintf("field %q of key %q", field, key)
	}
	b, err := get(ctx, s.client, key, field)
	if addr, moved := redis.IsMovedError(err); moved { // a node of a cluster, which knows whose it is
		o := s.options
		o.Addr = addr
		owner := redis.NewClient(&o)
		defer owner.Close()
		b, err = get(ctx, owner, key, field)
	}
	switch {
	case errors.Is(err, redis.Nil):
		return nil, ui.WithHint(fmt.Errorf("%s: no %s", s.name, what), "the database is the number at the end of the URL: redis://host:6379/0")
	case redis.HasErrorPrefix(err, "WRONGTYPE") && field == "":
		return nil, ui.WithHint(fmt.Errorf("%s: %s is not a string", s.name, what), "name a field of a hash with --field")
	case err != nil:
		return nil, s.failure(err)
	}
	return b, nil
}

func get(ctx context.Context, c *redis.Client, key, field string) ([]byte, error) {
	if field != "" {
		return c.HGet(ctx, key, field).Bytes()
	}
	return c.Get(ctx, key).Bytes()
}

// failure tells an answer of the server from a server that gives none.
func (s *storeAccess) failure(err error) error {
	var answer redis.Error
	switch {
	case errors.Is(err, storeredis.ErrDenied):
		return ui.WithHint(fmt.Errorf("%s: %w", s.name, err), "looking for dictionaries takes +function|list, and +getrange and +scan on ~cinch:dict:*; docs/DICTIONARIES.md says what else takes what")
	case redis.HasErrorPrefix(err, "NOPERM"):
		return ui.WithHint(fmt.Errorf("%s: %w", s.name, err), "give the user in the URL that right; docs/DICTIONARIES.md and docs/PACK.md say what takes what")
	case redis.HasErrorPrefix(err, "READONLY"):
		return ui.WithHint(fmt.Errorf("%s: %w", s.name, err), "give the address of the primary")
	case errors.Is(err, storeredis.ErrForeign):
		return fmt.Errorf("%s: %w", s.name, err)
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return ui.WithHint(fmt.Errorf("%s: %w", s.name, err), "name the user in the URL, redis://user@host:6379, and the password in a file: --password-file, or CINCH_PASSWORD_FILE")
	case errors.As(err, &answer):
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return withCode(exitUnreachable, ui.WithHint(fmt.Errorf("%s: %w", s.name, err), "is the server running, and can it be reached from here?"))
}

// Dictionary finds a dictionary that is kept in the store.
func (s *storeAccess) Dictionary(number uint32) (*codec.Dict, error) {
	d, err := s.dicts.Dictionary(number)
	if err != nil && !errors.Is(err, cinch.ErrDictMissing) {
		return nil, s.failure(err)
	}
	return d, err
}
