package tarantool

import (
	"context"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/store"
)

// Store is a master whose tuples are walked, read and replaced.
type Store struct {
	conn   *Conn
	name   string
	schema *Schema
	spaces []*TupleSpace

	// version of the schema that the choice of fields holds for. Unlike schema it follows.
	version atomic.Uint64
}

// OpenOptions say what a Store walks over.
type OpenOptions struct {
	Name string // what the server is called in messages
	// Wanted chooses fields; a space without any is left out. Nil: all fields of all spaces, those
	// that the format doesn't name too.
	Wanted func(s *Space, f Field) bool
	// Trusts chooses fields of which somebody vouches that no constraint reads them; nil: none.
	Trusts   func(s *Space, f Field) bool
	ReadOnly bool // a replica will do
}

// Open looks at the server behind conn, which stays the caller's.
func Open(ctx context.Context, conn *Conn, o OpenOptions) (*Store, error) {
	schema, err := Load(ctx, conn)
	if err != nil {
		return nil, err
	}
	s := &Store{conn: conn, name: o.Name, schema: schema}
	s.version.Store(schema.Version)
	for _, space := range schema.Spaces() {
		if space.System() || space.View || OwnSpace(space.Name) || space.Primary() == nil {
			continue
		}
		t := &TupleSpace{store: s, space: space, trusted: map[int]bool{}}
		for _, f := range space.Fields {
			t.trusted[f.Number] = o.Trusts != nil && o.Trusts(space, f)
		}
		if t.choose(o.Wanted); t.all || len(t.fields) > 0 {
			s.spaces = append(s.spaces, t)
		}
	}
	st, err := status(ctx, conn, nil)
	if err == nil && st.ReadOnly && !o.ReadOnly {
		err = store.ErrReadOnly
	}
	return s, err
}

// OwnSpace reports that a space is one of ours.
func OwnSpace(name string) bool { return name == DictSpace || name == recordSpace }

// Schema is what the server's spaces were when the store was opened.
func (s *Store) Schema() *Schema { return s.schema }

// Spaces are those with fields that are wanted.
func (s *Store) Spaces() []*TupleSpace { return s.spaces }

// Name is what the server is called.
func (s *Store) Name() string { return s.name }

// Ping waits for the server's answer to a request that does nothing.
func (s *Store) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// RunID is the same for all servers of a cluster, and after restarts, as positions are keys.
func (s *Store) RunID(ctx context.Context) (string, error) {
	st, err := status(ctx, s.conn, nil)
	if err != nil {
		return "", err
	}
	return st.Cluster, nil
}

// Memory is the server's own account of what memtx and the walked spaces take.
func (s *Store) Memory(ctx context.Context) (store.Memory, error) {
	var ids []uint32
	for _, t := range s.spaces {
		if t.space.Engine != "vinyl" { // it counts all versions of a tuple until it compacts them
			ids = append(ids, t.space.ID)
		}
	}
	st, err := status(ctx, s.conn, ids)
	if err != nil {
		return store.Memory{}, err
	}
	m := store.Memory{Used: st.ArenaUsed, Limit: st.QuotaSize}
	for _, n := range st.Bytes {
		m.Tuples += n
	}
	return m, nil
}

// TupleSpace is the walk over one space's tuples.
type TupleSpace struct {
	store   *Store
	space   *Space
	fields  map[int]bool
	trusted map[int]bool
	all     bool // fields, those behind the format too
	keys    atomic.Int64
}

func (t *TupleSpace) choose(wanted func(*Space, Field) bool) {
	if t.all = wanted == nil; t.all {
		return
	}
	t.fields = make(map[int]bool)
	for _, f := range t.space.Fields {
		if wanted(t.space, f) {
			t.fields[f.Number] = true
		}
	}
}

// Name is the server and the space: what it is called in messages.
func (t *TupleSpace) Name() string { return t.store.name + "/" + t.space.Name }

// DB is the space's name.
func (t *TupleSpace) DB() string { return t.space.Name }

// Keys is the number of tuples.
func (t *TupleSpace) Keys(ctx context.Context) (int64, error) {
	st, err := status(ctx, t.store.conn, []uint32{t.space.ID})
	if err != nil {
		return 0, err
	}
	t.keys.Store(st.Tuples[0])
	return st.Tuples[0], nil
}

// Rebuild has nothing to do here.
func (t *TupleSpace) Rebuild(context.Context, [][]byte) (int, error) { return 0, nil }

// Usage is not asked for: what tuples take is in Memory.
func (t *TupleSpace) Usage(_ context.Context, keys [][]byte) ([]int64, error) {
	return make([]int64, len(keys)), nil
}

// Space describes the space.
func (t *TupleSpace) Space() *Space { return t.space }
