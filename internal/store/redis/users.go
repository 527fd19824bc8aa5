package redis

import (
	"context"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// defaultUser is the user of unauthenticated clients.
const defaultUser = "default"

// SoleWriter implements store.Store.
func (s *Store) SoleWriter(ctx context.Context) (login string, one bool) {
	var writers []string
	for _, n := range s.nodes {
		some, err := writersOf(ctx, n.client)
		if err != nil {
			return "", false
		}
		writers = append(writers, some...)
	}
	slices.Sort(writers)
	switch writers = slices.Compact(writers); {
	case len(writers) == 0:
		return s.base.Username, true // clients use the same user
	case len(writers) > 1:
		return "", false
	case writers[0] == defaultUser:
		return "", true
	}
	return writers[0], true
}

// writersOf lists the users who may have written what a server holds: all but the client's own. The default
// user does not count if it is off, since others have replaced it then.
func writersOf(ctx context.Context, c *goredis.Client) ([]string, error) {
	users, err := c.Do(ctx, "ACL", "USERS").StringSlice()
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown command") {
		return []string{defaultUser}, nil // a server without users
	}
	if err != nil || len(users) == 1 {
		return users, err
	}
	listed, err := c.Do(ctx, "ACL", "LIST").StringSlice()
	off := slices.ContainsFunc(listed, func(rules string) bool { return strings.HasPrefix(rules, "user "+defaultUser+" off ") })
	own := c.Options().Username
	return slices.DeleteFunc(users, func(u string) bool { return u == own && u != defaultUser || u == defaultUser && off }), err
}
