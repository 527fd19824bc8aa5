package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/shadow"
)

// life is how long a key of a target has still to live, by PTTL.
type life time.Duration

// Lives of keys that are not counted down, as go-redis has them.
const (
	gone    life = -2
	forever life = -1
)

// apart is how far the targets' clocks of a key may be from each other: one of them got the key a little later.
const apart = life(2 * time.Second)

// Excuse reports whether the answers may differ because a key has expired at one target a moment before the other.
// The question comes a little later, so the key may have expired at both, or been written again.
func (p *Protocol) Excuse(ctx context.Context, op *shadow.Operation, control, test *shadow.Target) bool {
	doubtful := p.doubtful(op)
	if o, ok := op.Own.(*aside); ok && o.sure && !doubtful {
		return false
	}
	a, b := client(control.Upstream), client(test.Upstream)
	defer a.Close()
	defer b.Close()
	if !hasExpired(ctx, a) && !hasExpired(ctx, b) {
		return false
	}
	if doubtful || len(op.Keys) == 0 && op.Kind == shadow.Read { // KEYS
		return true
	}
	for _, name := range op.Keys {
		if atControl, ok := lifeOf(ctx, a, name); ok {
			if atTest, ok := lifeOf(ctx, b, name); ok && mayHaveExpired(op.Kind, atControl, atTest) {
				return true
			}
		}
	}
	return false
}

// mayHaveExpired is what Excuse says of a key. A read that finds a key at one target only, where it has long to live, is
// none: a write was lost. A write may have made the key anew where it had expired, and left it to expire at the other.
func mayHaveExpired(k shadow.Kind, a, b life) bool {
	switch {
	case a == gone && b == gone, a >= 0 && b >= 0:
		return true
	case a >= 0 && a <= apart, b >= 0 && b <= apart:
		return true
	}
	return k == shadow.Write && (a == gone || b == gone)
}

// doubtful reports whether an operation has keys that servers may have ended by their own clocks before the mirror could see to that.
func (p *Protocol) doubtful(op *shadow.Operation) bool {
	return slices.ContainsFunc(op.Keys, func(name string) bool {
		db, key := keyOf(name)
		return p.deadlines.doubted(subject{db: db, key: key})
	})
}

// hasExpired reports whether a server has ended keys by its own clock.
func hasExpired(ctx context.Context, rdb *goredis.Client) bool {
	text, err := rdb.Info(ctx).Result()
	if err != nil {
		return true // it does not let us ask
	}
	return parseInfo(text)["expired_keys"] != "0"
}

// lifeOf asks for the time to live of a key that operations name so.
func lifeOf(ctx context.Context, rdb *goredis.Client, name string) (l life, ok bool) {
	db, key := keyOf(name)
	conn := rdb.Conn()
	defer conn.Close()
	if n, err := strconv.Atoi(db); err != nil || n > 0 && conn.Select(ctx, n).Err() != nil {
		return gone, false
	}
	ttl, err := conn.PTTL(ctx, key).Result()
	if ttl > tenYears-longestRun {
		return forever, err == nil // the mirror ends it
	}
	return life(ttl), err == nil
}
