package tarantool

import (
	"context"
	"slices"

	tnt "github.com/tarantool/go-tarantool/v2"
)

// The space of users. On a new server it holds guest, who is the default user, admin, who may see
// everything, and roles. Users with few rights may not read it, and the view of it hides others from them.
const (
	spaceUser = 304
	userName  = 2 // fields
	userType  = 3
)

// SeveralUsers reports that the server has users beside those of a new one, or that it can't be found out.
func (s *Store) SeveralUsers(ctx context.Context) bool {
	var users rawTuples
	err := s.conn.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(spaceUser).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &users)
	if err != nil || len(users) == 0 {
		return true
	}
	return slices.ContainsFunc(users, func(u []any) bool {
		return len(u) <= userType || u[userType] == "user" && u[userName] != "guest" && u[userName] != "admin"
	})
}
