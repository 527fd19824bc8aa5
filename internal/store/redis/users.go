package redis

import (
	"context"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// defaultUser is the user of unauthenticated clients.
const defaultUser = "default"

// SoleWriter implements store.Store.
func (s *Store) SoleWriter(ctx context.Context) (login string, one bool) {
	return store.SoleWriter(s.nodes, func(n *Node) ([]string, error) { return writersOf(ctx, n.client) }, s.base.Username, defaultUser)
}

// writersOf lists the users that may have written values on a server: all but the client's own. The default user is
// left out if it is off, since other users have replaced it then.
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
