package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// leasePrefix begins the keys, in database 0, by which background packers take turns. Each has an expiry, and
// holds the name of the current holder or, during a pause, pauseMark.
const leasePrefix = "cinch:pack:"

// pauseMark is the content of a key during a pause between turns.
const pauseMark = "done"

// A Lease implements store.Lease. If the server evicts its key, the holder may continue for a while beside
// another.
type Lease struct {
	client goredis.UniversalClient
	key    string
	holder string
}

// Lease implements store.Store.
func (s *Store) Lease(name, holder string) store.Lease {
	l := &Lease{client: s.cluster, key: leasePrefix + name, holder: holder}
	if s.cluster == nil {
		l.client = s.nodes[0].client
	}
	return l
}

// Acquire implements store.Lease.
func (l *Lease) Acquire(ctx context.Context, hold time.Duration) (wait time.Duration, err error) {
	taken, err := l.client.SetNX(ctx, l.key, l.holder, hold).Result()
	if err != nil {
		return 0, classify(err)
	}
	if taken {
		return 0, nil
	}
	left, err := l.client.PTTL(ctx, l.key).Result()
	if err != nil {
		return 0, classify(err)
	}
	if left == -1 { // no expiry: the store was copied without expiries, and no gateway holds the lease
		left = hold
		err = classify(l.client.PExpire(ctx, l.key, hold).Err())
	}
	return max(left, time.Millisecond), err // negative: the key has gone
}

// Renew implements store.Lease.
func (l *Lease) Renew(ctx context.Context, hold time.Duration) (bool, error) {
	mine, err := l.isHolder(ctx)
	if err != nil || !mine {
		return false, err
	}
	kept, err := l.client.PExpire(ctx, l.key, hold).Result()
	return kept, classify(err)
}

// Release implements store.Lease.
func (l *Lease) Release(ctx context.Context, pause time.Duration) error {
	mine, err := l.isHolder(ctx)
	if err != nil || !mine {
		return err
	}
	if pause > 0 {
		return classify(l.client.Set(ctx, l.key, pauseMark, pause).Err())
	}
	return classify(l.client.Del(ctx, l.key).Err())
}

func (l *Lease) isHolder(ctx context.Context) (bool, error) {
	holder, err := l.client.Get(ctx, l.key).Result()
	if errors.Is(err, goredis.Nil) {
		return false, nil
	}
	return holder == l.holder, classify(err)
}
