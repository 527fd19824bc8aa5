package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// dictBackend is one of the places in a server where dictionaries are stored: functions or keys.
type dictBackend interface {
	// get returns the dictionary. Its error wraps envelope.ErrDictMissing if the server answers that there is
	// none.
	get(ctx context.Context, number uint32) (*codec.Dict, error)
	// add stores the dictionary unless there is something already, which is no error.
	add(ctx context.Context, d *codec.Dict) error
	// remove deletes what is stored under the number. It is no error if there is nothing.
	remove(ctx context.Context, number uint32) error
}

// ensureStored makes sure that h holds d, and reads it back to verify.
func ensureStored(ctx context.Context, h dictBackend, d *codec.Dict) error {
	if held, err := isStored(ctx, h, d); held || err != nil {
		return err
	}
	if err := h.add(ctx, d); err != nil {
		return err
	}
	held, err := isStored(ctx, h, d)
	if err == nil && !held {
		err = errVanished
	}
	return err
}

func isStored(ctx context.Context, h dictBackend, d *codec.Dict) (bool, error) {
	found, err := h.get(ctx, d.Number())
	if errors.Is(err, envelope.ErrDictMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if found.Hash() != d.Hash() {
		return false, fmt.Errorf("%w: SHA-256 in the server %x, here %x", ErrCollision, found.Hash(), d.Hash())
	}
	return true, nil
}
