package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// home is one of the places of a server where dictionaries live.
type home interface {
	// get returns the dictionary, or an error that wraps cinch.ErrDictMissing when the
	// server says that there is none.
	get(ctx context.Context, number uint32) (*codec.Dict, error)
	// add stores the dictionary unless something is there; that is no error.
	add(ctx context.Context, d *codec.Dict) error
	// remove deletes what is under the number; it is no error when nothing is.
	remove(ctx context.Context, number uint32) error
}

// place makes sure that h holds d, by reading it there.
func place(ctx context.Context, h home, d *codec.Dict) error {
	if held, err := holds(ctx, h, d); held || err != nil {
		return err
	}
	if err := h.add(ctx, d); err != nil {
		return err
	}
	held, err := holds(ctx, h, d)
	if err == nil && !held {
		err = errVanished
	}
	return err
}

func holds(ctx context.Context, h home, d *codec.Dict) (bool, error) {
	found, err := h.get(ctx, d.Number())
	if errors.Is(err, cinch.ErrDictMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if found.Hash() != d.Hash() {
		return false, fmt.Errorf("%w: the server's has SHA-256 %x, ours %x", ErrCollision, found.Hash(), d.Hash())
	}
	return true, nil
}
