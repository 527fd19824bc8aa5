package tarantool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Access is a connection to a server, past any gateway. It implements store.Access, and looks up the server's other
// shards when it needs them.
type Access struct {
	conn  *Conn
	name  string
	admin *dictAdmin
}

var _ store.Access = (*Access)(nil)

// NewAccess returns an Access that owns conn and group. group holds the dictionaries of the server and of the other
// shards.
func NewAccess(conn *Conn, group *ClusterDicts, name string) *Access {
	return &Access{conn, name, &dictAdmin{group: group, name: name}}
}

// Name implements store.Access.
func (a *Access) Name() string { return a.name }

// Explain implements store.Access.
func (a *Access) Explain(err error) error { return Explain(a.name, err) }

// DictAdmin implements store.Access.
func (a *Access) DictAdmin() store.DictAdmin { return a.admin }

// Close implements store.Access.
func (a *Access) Close() {
	a.conn.Close()
	a.admin.group.Close()
}

// CheckAddress returns an error if the address is incomplete or its key can't be read.
func CheckAddress(at store.Address) error {
	if at.Space != "" && at.Key != "" && at.Field != "" {
		_, err := tupleKey(at.Key)
		return err
	}
	return &store.HintedError{Err: errors.New("no space, field and key given"), Class: store.ErrUsage, Help: "cinch inspect tarantool://… --space docs --field body 7"}
}

// Value implements store.Access: it reads a field of a tuple.
func (a *Access) Value(ctx context.Context, at store.Address) ([]byte, error) {
	s, err := Open(ctx, a.conn, OpenOptions{Name: a.name, ReadOnly: true})
	if err != nil {
		return nil, a.Explain(err)
	}
	return readField(ctx, s, at)
}

func readField(ctx context.Context, s *Store, at store.Address) ([]byte, error) {
	key, err := tupleKey(at.Key)
	if err != nil {
		return nil, err
	}
	for _, t := range s.spaces {
		if t.DB() != at.Space {
			continue
		}
		field, err := fieldNumber(t.space, at.Field)
		if err != nil {
			return nil, err
		}
		stored, err := t.Field(ctx, key, field)
		if err == nil && stored == nil {
			err = fmt.Errorf("space %s has no tuple %s with a string or binary in field %s", at.Space, at.Key, at.Field)
		}
		return stored, Explain(s.name, err)
	}
	return nil, fmt.Errorf("%s: there is no space %s that the user may read", s.name, at.Space)
}

// fieldNumber returns the number, from 0, of a field given by its name or by its number from 1.
func fieldNumber(s *schema.Space, name string) (int, error) {
	if n, ok := s.FieldNumber(name); ok {
		return n, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		return n - 1, nil
	}
	return 0, fmt.Errorf("space %s has no field %s", s.Name, name)
}

// tupleKey parses a key as JSON: a list of its parts, or its only part. Text that is not JSON is a string.
func tupleKey(text string) ([]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return []any{text}, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for i, part := range list {
		n, ok := part.(json.Number)
		if !ok {
			continue
		}
		if whole, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
			list[i] = whole
		} else if natural, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
			list[i] = natural
		} else if list[i], err = n.Float64(); err != nil {
			return nil, fmt.Errorf("key %s: %w", text, err)
		}
	}
	return list, nil
}
