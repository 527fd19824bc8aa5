package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// pauseKey exists, in database 0, while packing is paused. It holds the time of the start and has no expiry.
// It can't collide with leases, whose names are hashes.
const pauseKey = leasePrefix + "paused"

// Pause implements store.Pause. If the key is evicted or flushed, the pause has ended.
type Pause struct{ client goredis.UniversalClient }

// NewPause returns the Pause of a server or cluster. client uses database 0.
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
		} // the pause ended between the two commands
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
	since, _ = time.Parse(time.RFC3339, text) // zero if the content is not a time: packing is paused even so
	return since, true, nil
}
