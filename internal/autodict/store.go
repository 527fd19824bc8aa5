package autodict

import (
	"context"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// Store keeps dictionaries, and records about them, where the values are that name them.
// internal/store/redis implements it.
type Store interface {
	cinch.Dictionaries
	// Publish stores dictionaries and reads them back. What is not allowed to be used for
	// new values is no error; Ready tells.
	Publish(ctx context.Context, dicts ...*codec.Dict) error
	// Ready reports that values that are stored now may name the dictionary.
	Ready(number uint32) bool
	// Retired reports that someone wants no new values to name the dictionary.
	Retired(number uint32) bool

	// Record returns a text that was kept under a name, and its version; "" and 0 when
	// there is none.
	Record(ctx context.Context, name string) (text string, version uint64, err error)
	// ReplaceRecord keeps another text and returns its version, or 0 when the version that
	// is given is not the current one any more.
	ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error)
}
