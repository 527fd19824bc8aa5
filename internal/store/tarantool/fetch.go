package tarantool

import (
	"context"
	"errors"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"
)

// Fetch reads the tuple under a key. It returns nil if there is none, also because the server refuses the key
// itself. Key and tuple are MessagePack.
func Fetch(ctx context.Context, c *Conn, space, index uint32, key []byte) ([]byte, error) {
	var tuples []msgpack.RawMessage
	err := c.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(space).Index(index).Key(msgpack.RawMessage(key)).Limit(1).Context(ctx)
	}, &tuples)
	var answer tnt.Error
	if errors.As(err, &answer) && !errors.Is(err, ErrDenied) {
		return nil, nil
	}
	if err != nil || len(tuples) == 0 {
		return nil, err
	}
	return tuples[0], nil
}
