package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// leasePrefix begins the keys, in database 0, by which packers in the background take
// turns. Each has an expiry, and holds whose turn it is, or that there is to be a pause.
const leasePrefix = "cinch:pack:"

// pauseMark is what a key holds while it is nobody's turn.
const pauseMark = "done"

// A Lease lets one of several do something in a store at a time, and pause together
// between. It is no lock: who is cut off from the store, or whose key is evicted, may go
// on for a while beside another. So it is only for work that may be done twice.
type Lease struct {
	client goredis.UniversalClient
	key    string
	holder string
}

// Lease returns the lease called name, to be taken in the name of holder, which nobody
// else has.
func (s *Store) Lease(name, holder string) *Lease {
	l := &Lease{client: s.cluster, key: leasePrefix + name, holder: holder}
	if s.cluster == nil {
		l.client = s.nodes[0].client
	}
	return l
}

// Take makes it the holder's turn for a time, and returns 0. While it is another's turn,
// or there is a pause, it returns after what time to ask again.
func (l *Lease) Take(ctx context.Context, hold time.Duration) (wait time.Duration, err error) {
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
	return max(left, time.Millisecond), nil // negative: it has gone, or somebody else's key never will
}

// Keep makes the turn last for a time from now. It reports false when it is no longer
// the holder's.
func (l *Lease) Keep(ctx context.Context, hold time.Duration) (bool, error) {
	mine, err := l.mine(ctx)
	if err != nil || !mine {
		return false, err
	}
	kept, err := l.client.PExpire(ctx, l.key, hold).Result()
	return kept, classify(err)
}

// Finish ends the turn. With a pause nobody's turn begins before that is over.
func (l *Lease) Finish(ctx context.Context, pause time.Duration) error {
	mine, err := l.mine(ctx)
	if err != nil || !mine {
		return err
	}
	if pause > 0 {
		return classify(l.client.Set(ctx, l.key, pauseMark, pause).Err())
	}
	return classify(l.client.Del(ctx, l.key).Err())
}

func (l *Lease) mine(ctx context.Context) (bool, error) {
	holder, err := l.client.Get(ctx, l.key).Result()
	if errors.Is(err, goredis.Nil) {
		return false, nil
	}
	return holder == l.holder, classify(err)
}
