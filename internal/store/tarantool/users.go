package tarantool

import (
	"context"
	"slices"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// The system spaces of users and grants. A new server has the users guest (unauthenticated clients) and admin
// (all rights), and roles. Users with few rights may read neither space, and the views of both hide other
// users from them.
const (
	spaceUser = 304
	userName  = 2 // fields
	userType  = 3

	spaceGrants   = 312
	grantTo       = 1 // fields
	grantOn       = 2
	grantObject   = 3
	grantRights   = 4
	guestID       = 0
	publicID      = 2      // the role that all users have
	writeRight    = 2      // bits of grantRights
	loginRights   = 8 | 16 // on the universe: log in, and use other grants
	guest, admin  = "guest", "admin"
	universe      = "universe"
	spaceOfGrants = "space"
)

// writers lists the users that may have written values on the server. It leaves out admin and the connection's own
// user, and lists guest only if guest was granted something.
func (s *Store) writers(ctx context.Context) (names []string, err error) {
	users, err := s.selectAll(ctx, spaceUser)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		name, _ := u.At(userName).(string)
		if u.At(userType) == "user" && name != admin && name != guest && name != s.conn.o.User {
			names = append(names, name)
		}
	}
	if len(names) == 0 && s.conn.o.User == "" || len(users) == 0 {
		return append(names, guest), nil
	}
	grants, err := s.selectAll(ctx, spaceGrants)
	if slices.ContainsFunc(grants, guestWrites) {
		names = append(names, guest)
	}
	return names, err
}

// guestWrites reports whether a grant gives guest more than it has on a new server.
func guestWrites(grant schema.Tuple) bool {
	to, _ := grant.Int(grantTo)
	object, isNumber := grant.Int(grantObject)
	rights, _ := grant.Int(grantRights)
	switch on := grant.At(grantOn); {
	case on == universe:
		return (to == guestID || to == publicID) && rights&^loginRights != 0
	case to == guestID:
		return on != "role" || object != publicID
	case to == publicID:
		return on == spaceOfGrants && rights&writeRight != 0 && (!isNumber || object > schema.LastSystemSpace)
	}
	return false
}

func (s *Store) selectAll(ctx context.Context, space uint32) (tuples rawTuples, err error) {
	err = s.conn.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(space).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &tuples)
	return tuples, err
}
