package tarantool

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/system/panics"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// WalkOptions configure a walk.
type WalkOptions struct {
	Name string // the server's name in messages, without credentials
	Node string // the server's name in the names of nodes and spaces
	// Rules choose the fields that they compress and on which nothing in the server computes. Nil: all fields
	// are walked.
	Rules      *policy.Policy
	ReadOnly   bool // nothing is replaced, so a replica suffices
	Everywhere bool // walk the masters of all shards, not only this server
	// Dicts are dictionaries that the caller maintains. Nil: those of the ClusterDicts, which the walk maintains
	// unless it is read-only.
	Dicts store.Dicts
	// Close closes the connections that the caller opened for the walk.
	Close func()
}

// Walk walks the tuples of a master, or of the masters of all shards. It implements store.Store.
type Walk struct {
	o       WalkOptions
	admin   *dictAdmin
	masters []*Store // the server itself first
	opened  *layout  // of the masters; nil: unknown
	stop    context.CancelFunc
}

var _ store.Store = (*Walk)(nil)

// OpenWalk opens the server behind conn, and its other shards if Everywhere is set. Its errors are explained.
func OpenWalk(ctx context.Context, conn *Conn, group *ClusterDicts, o WalkOptions) (*Walk, error) {
	w := &Walk{o: o, stop: func() {}, admin: &dictAdmin{group: group, name: o.Name}}
	if err := w.open(ctx, conn); err != nil {
		w.Close()
		return nil, w.Explain(err)
	}
	if o.Dicts == nil && !o.ReadOnly {
		ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
		go panics.KeepRunning(ctx, group.o.Log, group.o.Errors, group.Run)
	}
	if err := w.check(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Walk) open(ctx context.Context, conn *Conn) error {
	o := OpenOptions{Name: w.o.Node, ReadOnly: w.o.ReadOnly}
	if w.o.Rules != nil {
		o.Wanted, o.Trusts = sealsField(w.o.Rules), trustsField(w.o.Rules)
	}
	own, err := Open(ctx, conn, o)
	if err != nil {
		return err
	}
	w.masters = []*Store{own}
	if !w.o.Everywhere {
		return nil
	}
	if err := w.admin.discover(ctx); err != nil {
		return err
	}
	w.opened = w.admin.group.layout.Load()
	for _, m := range w.admin.members[1:] {
		s, err := Open(ctx, m.Conn, OpenOptions{Name: m.Name, ReadOnly: w.o.ReadOnly})
		if err != nil {
			return Explain(m.Name, err)
		}
		w.masters = append(w.masters, s)
	}
	return nil
}

// sealsField returns a function that reports whether some rule compresses a field on which nothing in the
// server computes.
func sealsField(rules *policy.Policy) func(*schema.Space, schema.Field) bool {
	return func(s *schema.Space, f schema.Field) bool {
		for _, r := range rules.CoveringTuple(s.RuleAddress(f)) {
			if !r.Raw() {
				return s.ConstraintFor(f.Number, trustsField(rules)(s, f)) == ""
			}
		}
		return false
	}
}

// trustsField returns a function that reports whether a rule vouches for a field.
func trustsField(rules *policy.Policy) func(*schema.Space, schema.Field) bool {
	return func(s *schema.Space, f schema.Field) bool {
		return policy.Unconstrained(rules.CoveringTuple(s.RuleAddress(f)))
	}
}

// check returns an error if a rule names a field that must not be compressed, or if there is no field to walk.
func (w *Walk) check() error {
	own := w.masters[0]
	if w.o.Rules == nil {
		if len(own.spaces) == 0 {
			return w.refused("there is no space that the user may read", "grant read on the spaces to the user in the URL")
		}
		return nil
	}
	if w.o.Dicts != nil {
		return nil // a gateway reports elsewhere what its rules don't cover
	}
	for _, s := range own.schema.Spaces() {
		for _, f := range s.Fields {
			touched := s.ConstraintFor(f.Number, trustsField(w.o.Rules)(s, f))
			for _, r := range w.o.Rules.CoveringTuple(s.RuleAddress(f)) {
				if touched != "" && r.Key == s.Name && r.Field == f.Name && !r.Raw() {
					return &store.HintedError{Err: fmt.Errorf("rule %s names field %s of space %s: %s", r.Name, f.Name, s.Name, touched), Class: store.ErrConfig}
				}
			}
		}
	}
	if len(own.spaces) == 0 {
		return w.refused("no rule covers a field that may be compressed",
			"name one with --rule 'space=docs,field=body,setting=zstd-3'; the user must have the right to read the space")
	}
	return nil
}

func (w *Walk) refused(why, help string) error {
	return &store.HintedError{Server: w.o.Name, Err: errors.New(why), Help: help}
}

// Name implements store.Access.
func (w *Walk) Name() string { return w.o.Name }

// Explain implements store.Access.
func (w *Walk) Explain(err error) error { return Explain(w.o.Name, err) }

// DictAdmin implements store.Access.
func (w *Walk) DictAdmin() store.DictAdmin { return w.admin }

// Value implements store.Access.
func (w *Walk) Value(ctx context.Context, at store.Address) ([]byte, error) {
	b, err := readField(ctx, w.masters[0], at)
	return b, w.Explain(err)
}

// Close implements store.Access.
func (w *Walk) Close() {
	w.stop()
	if w.o.Close != nil {
		w.o.Close()
	}
}

// Dicts implements store.Store.
func (w *Walk) Dicts() store.Dicts {
	if w.o.Dicts != nil {
		return w.o.Dicts
	}
	return walkDicts{w.admin.group}
}

// walkDicts wraps errors in store.ErrDictUnknown if it is unknown whether the dictionary exists.
type walkDicts struct{ *ClusterDicts }

func (d walkDicts) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := d.ClusterDicts.Dictionary(number)
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) && !errors.Is(err, ErrForeign) {
		err = fmt.Errorf("%w: %w", store.ErrDictUnknown, err)
	}
	return x, err
}

// Targets implements store.Store.
func (w *Walk) Targets() (all []store.Target) {
	for _, m := range w.masters {
		for _, s := range m.spaces {
			all = append(all, store.Target{Node: m, Space: s})
		}
	}
	return all
}

// Part implements store.Store. Keys are divided by a hash, and each worker scans everything.
func (w *Walk) Part(worker, workers int) (targets []store.Target, own func(key []byte) bool) {
	return w.Targets(), store.HashPart(worker, workers)
}

// Moved implements store.Store: it reports whether the shards or their masters have changed since the store was
// opened. It is false for a walk over one master. It does not notice buckets that move between the same shards.
func (w *Walk) Moved(ctx context.Context) (bool, error) {
	if !w.o.Everywhere {
		return false, nil
	}
	now, err := w.admin.group.refreshLayout(ctx)
	return err == nil && now != w.opened, err
}

// CompressionRules implements store.Store: the rule for a value is found by the names of its space and field, and a
// space's own format may request one.
func (w *Walk) CompressionRules(p *policy.Policy) store.CompressionRules {
	type place struct{ space, field string }
	covering := make(map[place][]*policy.Rule)
	for _, s := range w.masters[0].spaces {
		for _, f := range s.space.Fields {
			covering[place{s.DB(), s.space.FieldName(f.Number)}] = p.CoveringTuple(s.space.RuleAddress(f))
		}
	}
	return store.CompressionRules{Rule: func(space string, v *store.Value, size int) *policy.Rule {
		return policy.RuleFor(covering[place{space, string(v.Field)}], size)
	}}
}

// Lease implements store.Store.
func (w *Walk) Lease(name, holder string) store.Lease { return w.admin.group.Lease(name, holder) }

// Pause implements store.Store.
func (w *Walk) Pause() store.Pause { return w.admin.group.Pause() }

// Writers implements store.Store.
func (w *Walk) Writers(ctx context.Context) store.Writers {
	return store.FindWriters(w.masters, func(s *Store) ([]store.Writer, error) { return s.writers(ctx) }, w.masters[0].conn.o.User, guest)
}

// CanRead implements store.Store.
func (w *Walk) CanRead(o store.ReadOptions) error {
	if o.IdleBelow > 0 || o.FreqAbove > 0 {
		//lint:ignore ST1005 a name
		return errors.New("Tarantool does not count the use of tuples")
	}
	return nil
}

// Unavailable implements store.Store.
func (w *Walk) Unavailable(err error) bool { return Unavailable(err) }

// MemorySetting implements store.Store.
func (w *Walk) MemorySetting() string { return "memtx_memory" }
