package store

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
)

// Held returns dictionaries in memory; it asks no store for others.
func Held(local *dict.Set) cinch.Dictionaries { return held{local} }

type held struct{ local *dict.Set }

func (h held) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := h.local.Get(number); ok {
		return d, nil
	}
	return nil, cinch.ErrDictMissing
}
