package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// forgotten is the state of a dictionary for which a node has only the mark.
const forgotten State = "forgotten"

// DictStates lists the dictionaries of each node of a cluster, by number, and those that were forgotten. It leaves
// out unusable ones.
func DictStates(ctx context.Context, nodes []*Dicts) ([]map[uint32]State, error) {
	all := make([]map[uint32]State, len(nodes))
	for i, n := range nodes {
		found, err := n.inventory(ctx, nil)
		if err != nil {
			return nil, err
		}
		if all[i] = found.states(); found.complete {
			continue
		}
		infos, err := n.keyInfos(ctx)
		if err != nil {
			return nil, err
		}
		for _, info := range infos { // live ones come before archived ones, so they win
			if _, there := all[i][info.Number]; info.Problem == "" && !there {
				all[i][info.Number] = info.State
			}
		}
	}
	return all, nil
}

// Spread copies to each node of a cluster the dictionaries that it lacks and others hold, and calls tell for
// each. It leaves out nodes in which a dictionary was forgotten, as an interrupted Forget leaves them.
func Spread(ctx context.Context, nodes []*Dicts, held []map[uint32]State, find func(uint32) (*codec.Dict, error), tell func(x *codec.Dict, node int)) (copied int, err error) {
	states := map[uint32]State{}
	for _, of := range held {
		for number, state := range of {
			if state != forgotten && states[number] != Live {
				states[number] = state
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(states)) {
		for i, n := range nodes {
			if _, there := held[i][number]; there {
				continue
			}
			x, err := find(number)
			if err != nil {
				return copied, fmt.Errorf("dictionary %08x: %w", number, err)
			}
			if err := n.storeAs(ctx, x, states[number]); err != nil {
				return copied, err
			}
			tell(x, i)
			copied++
		}
	}
	return copied, nil
}

// storeAs stores a dictionary in the state that it has in another node.
func (d *Dicts) storeAs(ctx context.Context, x *codec.Dict, s State) error {
	if err := d.Publish(ctx, x); err != nil {
		return err
	}
	switch s {
	case Archived:
		return d.Archive(ctx, x.Number())
	case Retired:
		return d.Retire(ctx, x.Number())
	}
	return nil
}
