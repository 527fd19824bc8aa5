package tarantool

import (
	"context"
	"strings"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// The system spaces of users, grants and spaces. A new server has the users guest (unauthenticated clients) and admin
// (all rights), and roles. Users with few rights may not read them, and their views hide other users.
const (
	spacesView    = 281 // those that the connection may read
	functionsView = 297 // those that it may call
	spaceUser     = 304
	idField       = 0 // of spaces, functions and users
	ownerField    = 1
	nameField     = 2
	typeField     = 3 // of users
	languageField = 4 // of functions

	spaceGrants  = 312
	grantTo      = 1 // fields
	grantOn      = 2
	grantObject  = 3
	grantRights  = 4
	guestID      = 0
	publicID     = 2 // the role that all users have
	writeRight   = 2 // bits of grantRights
	executeRight = 4
	createRight  = 32
	loginRights  = 8 | 16 // on the universe: log in, and use other grants
	guest, admin = "guest", "admin"
	universe     = "universe"
)

// writers lists the users that may have written values on the server, with the spaces that each may write. It leaves
// out admin and the connection's own user, and lists guest only if guest may write somewhere.
func (s *Store) writers(ctx context.Context) (all []store.Writer, err error) {
	users, err := s.selectAll(ctx, spaceUser)
	if err != nil {
		return nil, err
	}
	if len(users) == 0 { // hidden
		return []store.Writer{{Login: guest}}, nil
	}
	grants, err := s.selectAll(ctx, spaceGrants)
	if err != nil {
		return nil, err
	}
	spaces, err := s.selectAll(ctx, spacesView)
	if err != nil {
		return nil, err
	}
	functions, err := s.selectAll(ctx, functionsView)
	if err != nil {
		return nil, err
	}
	harmless := harmlessFunctions(functions)
	for _, u := range users {
		name, _ := u.At(nameField).(string)
		if u.At(typeField) != "user" || name == admin || name == s.conn.o.User {
			continue
		}
		id, _ := u.Int(idField)
		w := store.Writer{Login: name}
		if everywhere, some := rightsOf(id, grants, harmless); !everywhere {
			writable := map[string]bool{}
			for _, space := range spaces {
				number, _ := space.Int(idField)
				owner, _ := space.Int(ownerField)
				if text, _ := space.At(nameField).(string); owner == id || some[number] {
					writable[text] = true
				}
			}
			w.MayWrite = func(space string, _ []byte) bool { return writable[space] }
			if name == guest && len(writable) == 0 {
				continue
			}
		}
		all = append(all, w)
	}
	if len(all) == 0 && s.conn.o.User == "" {
		return []store.Writer{{Login: guest}}, nil
	}
	return all, nil
}

// rightsOf returns the spaces that a user may write by its grants and those of its roles, or whether it may write
// everywhere: a user who may call functions, or Lua, may write whatever these do. All users have the role public, and
// may call harmless functions by it.
func rightsOf(user int64, grants []schema.Tuple, harmless map[int64]bool) (everywhere bool, spaces map[int64]bool) {
	spaces = map[int64]bool{}
	holders, known := []int64{user, publicID}, map[int64]bool{user: true, publicID: true}
	for len(holders) > 0 {
		holder := holders[0]
		holders = holders[1:]
		for _, g := range grants {
			to, _ := g.Int(grantTo)
			if to != holder {
				continue
			}
			object, isNumber := g.Int(grantObject)
			rights, _ := g.Int(grantRights)
			switch on := g.At(grantOn); {
			case on == "role":
				if !known[object] {
					known[object] = true
					holders = append(holders, object)
				}
			case on == universe:
				everywhere = everywhere || rights&^loginRights&(writeRight|executeRight|createRight) != 0
			case on == "space" && rights&writeRight != 0 && !isNumber:
				return true, nil
			case on == "space" && rights&writeRight != 0:
				spaces[object] = spaces[object] || holder != publicID || object > schema.LastSystemSpace
			case rights&executeRight != 0:
				everywhere = everywhere || !(holder == publicID && on == "function" && isNumber && harmless[object])
			}
		}
	}
	return everywhere, spaces
}

// harmlessFunctions returns the numbers of functions that all users may call on a new server, those of SQL until 2.8
// and two in Lua, or after 'cinch tarantool init'.
func harmlessFunctions(functions []schema.Tuple) map[int64]bool {
	harmless := map[int64]bool{}
	for _, f := range functions {
		number, _ := f.Int(idField)
		name, _ := f.At(nameField).(string)
		harmless[number] = f.At(languageField) == "SQL_BUILTIN" || name == "box.schema.user.info" || name == "LUA" ||
			strings.HasPrefix(name, "cinch_")
	}
	return harmless
}

func (s *Store) selectAll(ctx context.Context, space uint32) (tuples rawTuples, err error) {
	err = s.conn.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(space).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &tuples)
	return tuples, err
}
