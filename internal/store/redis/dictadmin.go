package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// dictAdmin gives an administrator access to the dictionaries. It implements store.DictAdmin.
type dictAdmin struct {
	name    string
	nodes   func(context.Context) (*StoreDicts, error) // called when the nodes are first needed
	first   *Dicts                                     // of the named server, searched first; or nil
	explain func(error) error
}

var _ store.DictAdmin = (*dictAdmin)(nil)

// Name implements store.DictAdmin.
func (s *dictAdmin) Name() string { return s.name }

// each calls do for every node, and passes errors through explain.
func (s *dictAdmin) each(ctx context.Context, do func(i int, n dictNode) error) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return s.explain(err)
	}
	for i, n := range all.nodes {
		if err := do(i, n); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

// Dictionary finds a dictionary in any node.
func (s *dictAdmin) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := s.find(number)
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		err = s.explain(err)
	}
	return x, err
}

func (s *dictAdmin) find(number uint32) (*codec.Dict, error) {
	first := error(envelope.ErrDictMissing)
	if s.first != nil {
		x, err := s.first.Dictionary(number)
		if err == nil {
			return x, nil
		}
		first = err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	all, err := s.nodes(ctx)
	if err != nil {
		return nil, first // the answer of the one node that could be asked
	}
	return all.find(number)
}

func (s *dictAdmin) List(ctx context.Context) ([]store.DictInfo, error) {
	var lists []store.NodeDicts
	err := s.each(ctx, func(_ int, n dictNode) error {
		infos, err := n.dicts.List(ctx)
		var list []store.DictInfo
		for _, i := range infos {
			list = append(list, i.dictInfo())
		}
		lists = append(lists, store.NodeDicts{Name: n.name, List: list})
		return err
	})
	if err != nil {
		return nil, err
	}
	return store.MergeDicts("nodes", lists), nil
}

func (i Info) dictInfo() store.DictInfo {
	d := store.DictInfo{Number: i.Number, Bytes: i.Bytes, Place: string(i.Place), State: i.State, Problem: i.Problem}
	if i.Hash != [32]byte{} {
		d.SHA256 = fmt.Sprintf("%x", i.Hash)
	}
	return d
}

func (s *dictAdmin) Records(ctx context.Context) (all []store.Record, err error) {
	err = s.each(ctx, func(i int, n dictNode) error {
		texts, err := n.dicts.Records(ctx)
		for name, text := range texts {
			all = append(all, store.Record{Name: name, Text: text, Node: i})
		}
		return err
	})
	return all, err
}

func (s *dictAdmin) DeleteRecord(ctx context.Context, r store.Record, still func(string) bool) (deleted bool, err error) {
	err = s.each(ctx, func(i int, n dictNode) error {
		if i != r.Node {
			return nil
		}
		text, version, err := n.dicts.Record(ctx, r.Name)
		if err == nil && still(text) {
			deleted, err = n.dicts.DeleteRecord(ctx, r.Name, version)
		}
		return err
	})
	return deleted, err
}

// collectOptions returns the options for Collect.
func (s *dictAdmin) collectOptions(ctx context.Context) (CollectOptions, error) {
	all, err := s.nodes(ctx)
	if err != nil {
		return CollectOptions{}, s.explain(err)
	}
	o := CollectOptions{Layout: all.layout}
	for _, n := range all.nodes {
		o.Nodes = append(o.Nodes, CollectNode{Dicts: n.dicts, Scan: n.scan})
	}
	return o, nil
}

func (s *dictAdmin) Count(ctx context.Context) (map[uint32]int, error) {
	o, err := s.collectOptions(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := o.Count(ctx)
	return counts.ByDict, s.explain(err)
}

func (s *dictAdmin) Collect(ctx context.Context, how store.CollectOptions, numbers []uint32) ([]store.Collected, error) {
	o, err := s.collectOptions(ctx)
	if err != nil {
		return nil, err
	}
	o.Wait, o.Tell = how.Wait, how.Tell
	all, err := Collect(ctx, o, numbers)
	return all, s.explain(err)
}

func (s *dictAdmin) Restore(ctx context.Context, d *codec.Dict) error {
	return s.each(ctx, func(_ int, n dictNode) error { return n.dicts.Restore(ctx, d) })
}

// Forget erases an archived dictionary from all nodes that have it, and marks the others, so that no gateway stores it
// there again. It adds no hints to their errors, since the
// servers are not at fault.
func (s *dictAdmin) Forget(ctx context.Context, number uint32) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return s.explain(err)
	}
	var holding, lacking []*Dicts
	for _, n := range all.nodes {
		switch err := n.dicts.checkArchived(ctx, number); {
		case errors.Is(err, ErrNotStored):
			lacking = append(lacking, n.dicts)
		case err != nil:
			return dictError("forget", number, err)
		default:
			holding = append(holding, n.dicts)
		}
	}
	if len(holding) == 0 {
		return dictError("forget", number, ErrNotStored)
	}
	for _, d := range lacking {
		if err := d.markErased(ctx, number); err != nil {
			return dictError("forget", number, err)
		}
	}
	for _, d := range holding {
		if err := d.Forget(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

func (s *dictAdmin) Spread(ctx context.Context, tell func(uint32, string)) (nothing string, err error) {
	all, err := s.nodes(ctx)
	if err != nil {
		return "", s.explain(err)
	}
	held, err := DictStates(ctx, all.dicts())
	if err != nil {
		return "", s.explain(err)
	}
	copied, err := Spread(ctx, all.dicts(), held, all.find, func(x *codec.Dict, node int) { tell(x.Number(), all.nodes[node].name) })
	switch {
	case err != nil:
		return "", s.explain(err)
	case copied == 0 && len(held) == 1:
		return "there is one primary", nil
	case copied == 0:
		return fmt.Sprintf("each of %d primaries holds the same dictionaries", len(held)), nil
	}
	return "", nil
}

// Missing lists nodes that lack a dictionary. Two kinds of readers would miss it there: those that ask only the
// value's own node, and those of another cluster into which that node is restored.
func (s *dictAdmin) Missing(ctx context.Context, numbers []uint32) (lacks []store.MissingDict, err error) {
	all, err := s.nodes(ctx)
	if err != nil || all.layout == nil || len(numbers) == 0 {
		return nil, s.explain(err)
	}
	held, err := DictStates(ctx, all.dicts())
	if err != nil {
		return nil, s.explain(err)
	}
	for _, number := range numbers {
		for i, of := range held {
			if state := of[number]; state == "" || state == forgotten {
				lacks = append(lacks, store.MissingDict{Node: all.nodes[i].name, Number: number})
			}
		}
	}
	return lacks, nil
}
