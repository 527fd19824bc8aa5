package tarantool

import (
	"context"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Store walks, reads and replaces the tuples of a master.
type Store struct {
	conn   *Conn
	name   string
	schema *schema.Schema
	spaces []*TupleSpace

	// version is the schema version for which the choice of fields is valid. Unlike schema it is updated.
	version atomic.Uint64
}

// OpenOptions configure what a Store walks over.
type OpenOptions struct {
	Name string // the server's name in messages
	// Wanted chooses fields; a space without any is left out. Nil: all fields of all spaces, including those
	// beyond the format.
	Wanted func(s *schema.Space, f schema.Field) bool
	// Trusts chooses fields for which the operator has vouched that no constraint reads them; nil: none.
	Trusts   func(s *schema.Space, f schema.Field) bool
	ReadOnly bool // a replica suffices
}

// Open reads the schema and the state of the server behind conn. The caller closes conn.
func Open(ctx context.Context, conn *Conn, o OpenOptions) (*Store, error) {
	loaded, err := Load(ctx, conn)
	if err != nil {
		return nil, err
	}
	s := &Store{conn: conn, name: o.Name, schema: loaded}
	s.version.Store(loaded.Version)
	for _, space := range loaded.Spaces() {
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

// OwnSpace reports whether a space is one of Cinch's.
func OwnSpace(name string) bool { return name == schema.DictSpace || name == recordSpace }

// Schema returns the schema as of Open.
func (s *Store) Schema() *schema.Schema { return s.schema }

// Spaces returns the spaces that have wanted fields.
func (s *Store) Spaces() []*TupleSpace { return s.spaces }

// Name returns the server's name in messages.
func (s *Store) Name() string { return s.name }

// Ping sends PING and waits for the answer.
func (s *Store) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// RunID returns the cluster's ID. Restarts and the choice of the server do not change it, since positions are
// keys.
func (s *Store) RunID(ctx context.Context) (string, error) {
	st, err := status(ctx, s.conn, nil)
	if err != nil {
		return "", err
	}
	return st.Cluster, nil
}

// Memory returns the server's own report of what memtx and the walked spaces take.
func (s *Store) Memory(ctx context.Context) (store.Memory, error) {
	var ids []uint32
	for _, t := range s.spaces {
		if t.space.Engine != "vinyl" { // vinyl counts all versions of a tuple until it compacts them
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

// TupleSpace walks over the tuples of one space.
type TupleSpace struct {
	store   *Store
	space   *schema.Space
	fields  map[int]bool
	trusted map[int]bool
	all     bool // all fields, including those beyond the format
	keys    atomic.Int64
}

func (t *TupleSpace) choose(wanted func(*schema.Space, schema.Field) bool) {
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

// Name returns the names of server and space, for messages.
func (t *TupleSpace) Name() string { return t.store.name + "/" + t.space.Name }

// DB returns the space's name.
func (t *TupleSpace) DB() string { return t.space.Name }

// Keys returns the number of tuples.
func (t *TupleSpace) Keys(ctx context.Context) (int64, error) {
	st, err := status(ctx, t.store.conn, []uint32{t.space.ID})
	if err != nil {
		return 0, err
	}
	t.keys.Store(st.Tuples[0])
	return st.Tuples[0], nil
}

// Rebuild does nothing.
func (t *TupleSpace) Rebuild(context.Context, [][]byte) (int, error) { return 0, nil }

// Usage returns zeros: what tuples take is in Memory.
func (t *TupleSpace) Usage(_ context.Context, keys [][]byte) ([]int64, error) {
	return make([]int64, len(keys)), nil
}
