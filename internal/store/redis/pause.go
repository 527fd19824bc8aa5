package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// pauseKey is there, in database 0, while nobody is to pack. It holds since when, and has no expiry.
// Leases have other names: theirs are hashes.
const pauseKey = leasePrefix + "paused"

// Pause implements store.Pause. A key that is evicted, or flushed away, has ended.
type Pause struct{ client goredis.UniversalClient }

// NewPause returns that of the server, or of the cluster, that client speaks to in database 0.
func NewPause(client goredis.UniversalClient) Pause { return Pause{client} }

// Pause implements store.Store.
func (s *Store) Pause() store.Pause {
	if s.cluster != nil {
		return NewPause(s.cluster)
	}
	return NewPause(s.nodes[0].client)
}

// Set implements store.Pause.
func (p Pause) Set(ctx context.Context, at time.Time) (since time.Time, err error) {
	at = at.UTC().Truncate(time.Second)
	for {
		err = p.client.SetArgs(ctx, pauseKey, at.Format(time.RFC3339), goredis.SetArgs{Mode: "NX"}).Err()
		if !errors.Is(err, goredis.Nil) {
			return at, classify(err)
		}
		since, paused, err := p.Get(ctx)
		if paused || err != nil {
			return since, err
		} // it ended between the two
	}
}

// Clear implements store.Pause.
func (p Pause) Clear(ctx context.Context) error { return classify(p.client.Del(ctx, pauseKey).Err()) }

// Get implements store.Pause.
func (p Pause) Get(ctx context.Context) (since time.Time, paused bool, err error) {
	text, err := p.client.Get(ctx, pauseKey).Result()
	if errors.Is(err, goredis.Nil) {
		return since, false, nil
	}
	if err != nil {
		return since, false, classify(err)
	}
	since, _ = time.Parse(time.RFC3339, text) // of whoever wrote another thing: it is paused all the same
	return since, true, nil
}
