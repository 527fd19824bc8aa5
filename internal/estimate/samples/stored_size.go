package samples

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// Stored returns the size of the values compressed with a setting and a dictionary, or uncompressed where
// that is smaller. Without a dictionary d is nil.
func Stored(engine *codec.Engine, st codec.Setting, d *codec.Dict, values [][]byte) int {
	var local dict.Set
	if d != nil {
		_ = local.Add(d) // a single dictionary can't collide
		st.Dict = d.Number()
	}
	s, n := envelope.NewSealer(envelope.SealerOptions{Engine: engine, Dicts: store.MemoryDicts(&local)}), 0
	var buf []byte
	for _, v := range values {
		buf = s.Seal(buf[:0], v, st, nil)
		n += len(buf)
	}
	return n
}
