package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
)

// Reader reads dictionaries, and the records that gateways share, from one server. It writes and caches
// nothing.
type Reader struct {
	client goredis.UniversalClient
	places *dictBackends
}

// NewReader returns a Reader. client must use database 0.
func NewReader(client goredis.UniversalClient) Reader {
	return Reader{client, newDictBackends(client, nil)}
}

// Dictionary finds a dictionary in all places of the server. The error wraps envelope.ErrDictMissing if there is
// none.
func (r Reader) Dictionary(ctx context.Context, number uint32) (*codec.Dict, error) {
	return r.places.find(ctx, number)
}

// Numbers lists the dictionaries of a server that has functions.
func (r Reader) Numbers(ctx context.Context) (map[uint32]struct{}, error) {
	return r.places.numbers(ctx)
}

// Record returns a record's text and its version; "" and 0 when there is none.
func (r Reader) Record(ctx context.Context, name string) (text string, version uint64, err error) {
	return records{r.places.functions, r.places.keys}.Record(ctx, name)
}

// Live reports whether the server has a dictionary that is not retired, so that new values may name it.
func (r Reader) Live(ctx context.Context, number uint32) (bool, error) {
	libraries, err := r.places.functions.list(ctx, fmt.Sprintf("%s*_%08x", everyPrefix, number), false)
	if errors.Is(err, errNoFunctions) {
		return r.liveKey(ctx, number)
	}
	there, retired := false, false
	for _, l := range libraries {
		there = there || l.Name == r.places.functions.name(number)
		retired = retired || l.Name == fmt.Sprintf("%s%08x", markPrefix, number)
	}
	return there && !retired, err
}

func (r Reader) liveKey(ctx context.Context, number uint32) (bool, error) {
	there, err := r.client.Exists(ctx, r.places.keys.name(number)).Result()
	if err != nil || there == 0 {
		return false, classify(err)
	}
	_, retired, _, err := r.places.keys.marked(ctx, number)
	return !retired, err
}

// IsAnswer reports whether an error is the server's answer, not a sign that it can't be reached.
func IsAnswer(err error) bool { return isAnswer(err) }
