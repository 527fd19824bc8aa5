package tarantool

import (
	"context"

	"github.com/cinch-layer/cinch"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// Where the gateway's user may not see what touches fields nothing is sealed, but something may have
// been, by another user or before. So an operation that would cut or move sealed bytes goes as it came
// if what is stored now holds none. What clients write meanwhile through this gateway is plain.

// look reads a tuple by the key of an index on a connection of the gateway's own; nil: there is none.
type look func(ctx context.Context, space, index uint32, key []byte) ([]byte, error)

// storesPlain reports that the tuple which a request is about holds nothing that is sealed, or that
// there is none.
func (l look) storesPlain(ctx context.Context, v *vault, r *request, n need) bool {
	if l == nil {
		return false
	}
	u, no := newUpdater(v, r, n)
	if no != nil {
		return false
	}
	tuple, err := l(ctx, u.space.ID, u.index, u.key)
	if err != nil {
		return store.Answered(err) // a key that the server will refuse
	}
	if len(tuple) == 0 {
		return true
	}
	strings := wire.NewStrings(tuple, wire.Span{Len: len(tuple)})
	for strings.Next() {
		if cinch.IsSealed(strings.Content.Of(tuple)) {
			return false
		}
	}
	return strings.Err() == nil
}
