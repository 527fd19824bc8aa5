package tarantool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// dictAdmin gives an administrator access to the dictionaries of a server and of its other shards. It uses the
// masters, since replicas receive what is stored there. It implements store.DictAdmin.
type dictAdmin struct {
	group *ClusterDicts
	name  string

	mu        sync.Mutex
	members   []Member // the server itself first; nil: not looked up yet
	shardsErr error    // why it is unknown whether there are other shards; nil: it is known
}

var _ store.DictAdmin = (*dictAdmin)(nil)

// discover finds the other shards. If the user has no right to ask, it assumes that there are none.
func (s *dictAdmin) discover(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members != nil {
		return nil
	}
	members, err := s.group.Members(ctx, s.name)
	if errors.Is(err, ErrNoInit) || errors.Is(err, ErrDenied) {
		s.shardsErr, err = err, nil
	}
	if err == nil {
		s.members = members
	}
	return Explain(s.name, err)
}

// each calls do for every shard, and passes errors through Explain.
func (s *dictAdmin) each(ctx context.Context, do func(i int, m Member) error) error {
	if err := s.discover(ctx); err != nil {
		return err
	}
	for i, m := range s.members {
		if err := do(i, m); err != nil {
			return Explain(m.Name, err)
		}
	}
	return nil
}

func (s *dictAdmin) dicts() (all []*Dicts) {
	for _, m := range s.members {
		all = append(all, m.Dicts)
	}
	return all
}

// check checks what all shards hold.
func (s *dictAdmin) check(ctx context.Context) error {
	return s.each(ctx, func(_ int, m Member) error { return m.Dicts.Check(ctx) })
}

// Name implements store.DictAdmin. Until the shards have been looked up it is the server's own name.
func (s *dictAdmin) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		return s.name
	}
	var names []string
	for _, m := range s.members {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// Dictionary finds a dictionary in any shard.
func (s *dictAdmin) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := s.group.Dictionary(number)
	if errors.Is(err, envelope.ErrDictMissing) { // in the shards known so far
		ctx, cancel := context.WithTimeout(context.Background(), dictTimeout)
		defer cancel()
		if err := s.discover(ctx); err != nil {
			return nil, err
		}
		x, err = s.group.Dictionary(number)
	}
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		return nil, Explain(s.name, err)
	}
	return x, err
}

func (s *dictAdmin) List(ctx context.Context) ([]store.DictInfo, error) {
	var lists []store.NodeDicts
	err := s.each(ctx, func(_ int, m Member) error {
		infos, err := m.Dicts.List(ctx)
		var list []store.DictInfo
		for _, i := range infos {
			list = append(list, store.DictInfo{Number: i.Number, SHA256: i.Hash, Bytes: i.Bytes, Place: "space", State: i.State})
		}
		lists = append(lists, store.NodeDicts{Name: m.Name, List: list})
		return err
	})
	if err != nil {
		return nil, err
	}
	return store.MergeDicts("shards", lists), nil
}

func (s *dictAdmin) Records(ctx context.Context) (all []store.Record, err error) {
	err = s.each(ctx, func(i int, m Member) error {
		texts, err := m.Dicts.Records(ctx)
		for name, text := range texts {
			all = append(all, store.Record{Name: name, Text: text, Node: i})
		}
		return err
	})
	return all, err
}

func (s *dictAdmin) DeleteRecord(ctx context.Context, r store.Record, still func(string) bool) (deleted bool, err error) {
	err = s.each(ctx, func(i int, m Member) error {
		if i != r.Node {
			return nil
		}
		text, version, err := m.Dicts.Record(ctx, r.Name)
		if err == nil && still(text) {
			deleted, err = m.Dicts.DeleteRecord(ctx, r.Name, version)
		}
		return err
	})
	return deleted, err
}

func (s *dictAdmin) Count(ctx context.Context) (map[uint32]int, error) {
	if err := s.discover(ctx); err != nil {
		return nil, err
	}
	counts, err := CountAll(ctx, s.dicts())
	return counts.ByDict, Explain(s.name, err)
}

func (s *dictAdmin) Collect(ctx context.Context, o store.CollectOptions, numbers []uint32) ([]store.Collected, error) {
	if err := s.discover(ctx); err != nil {
		return nil, err
	}
	all, err := Collect(ctx, s.dicts(), o, numbers)
	return all, Explain(s.name, err)
}

func (s *dictAdmin) Restore(ctx context.Context, d *codec.Dict) error {
	return s.each(ctx, func(_ int, m Member) error { return m.Dicts.Restore(ctx, d) })
}

// Forget erases an archived dictionary for good: every value that names it is lost. It needs the right to write to
// the space of dictionaries, which administrators have. It marks shards without the dictionary too, or a gateway
// that has it in memory would store it there.
func (s *dictAdmin) Forget(ctx context.Context, number uint32) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	has := func(states ...State) bool {
		return slices.ContainsFunc(s.members, func(m Member) bool { return slices.Contains(states, m.Dicts.state(number)) })
	}
	if !has(Archived) || has(Live, Retired) {
		return Explain(s.name, fmt.Errorf("forget dictionary %08x: %w", number, ErrNotArchived))
	}
	return s.each(ctx, func(_ int, m Member) error { return m.Dicts.mark(ctx, number) })
}

func (s *dictAdmin) Spread(ctx context.Context, tell func(uint32, string)) (nothing string, err error) {
	if err := s.discover(ctx); err != nil {
		return "", err
	}
	if s.shardsErr != nil {
		return "", &store.HintedError{
			Server: s.name, Err: s.shardsErr,
			Help: "have an administrator run 'cinch tarantool init … --user NAME', or name the masters of all shards: tarantool://user:password@one,two,three",
		}
	}
	if err := s.check(ctx); err != nil {
		return "", err
	}
	copied, err := Spread(ctx, s.dicts(), func(x *codec.Dict, to int) { tell(x.Number(), s.members[to].Name) })
	switch {
	case err != nil:
		return "", Explain(s.name, err)
	case copied == 0 && len(s.members) == 1:
		return "the server belongs to no group of shards, and replicas receive dictionaries by themselves", nil
	case copied == 0:
		return fmt.Sprintf("each of %d shards holds the same dictionaries", len(s.members)), nil
	}
	return "", nil
}

// Missing lists the shards that lack any of the dictionaries: values that name them may move there.
func (s *dictAdmin) Missing(ctx context.Context, numbers []uint32) (lacks []store.MissingDict, err error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	for _, m := range s.members {
		for _, n := range numbers {
			if !m.Dicts.Has(n) {
				lacks = append(lacks, store.MissingDict{Node: m.Name, Number: n})
			}
		}
	}
	return lacks, nil
}
