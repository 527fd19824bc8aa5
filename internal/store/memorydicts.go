package store

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
)

// MemoryDicts returns the dictionaries of local, with no store behind them.
func MemoryDicts(local *dict.Set) envelope.Dictionaries { return memoryDicts{local} }

type memoryDicts struct{ local *dict.Set }

func (h memoryDicts) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := h.local.Get(number); ok {
		return d, nil
	}
	return nil, envelope.ErrDictMissing
}
