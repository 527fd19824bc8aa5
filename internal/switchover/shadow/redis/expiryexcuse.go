package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// ttl is the remaining time to live of a key at a target, by PTTL.
type ttl time.Duration

// Results for keys without a time to live, as go-redis returns them.
const (
	noKey    ttl = -2
	noExpiry ttl = -1
)

// maxTTLDifference limits the difference in a key's time to live between the targets: one got the key a
// little later.
const maxTTLDifference = ttl(2 * time.Second)

// Excuse reports whether the answers may differ because a key has expired at one target a moment before the
// other. It asks the targets a little later, when the key may have expired at both, or been written again.
func (p *Protocol) Excuse(ctx context.Context, op *shadow.Operation, control, test *shadow.Target) bool {
	doubtful := p.hasDoubtfulKey(op)
	if o, ok := op.Private.(*opData); ok && o.managed && !doubtful {
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
		if atControl, ok := ttlOf(ctx, a, name); ok {
			if atTest, ok := ttlOf(ctx, b, name); ok && mayHaveExpired(op.Kind, atControl, atTest) {
				return true
			}
		}
	}
	return false
}

// mayHaveExpired decides Excuse for one key, with its times to live at the targets. A read that finds a key
// at one target only, with a long time to live there, is not excused: a write was lost. A write may have
// created the key again where it had expired, with the old one left to expire at the other target.
func mayHaveExpired(k shadow.Kind, a, b ttl) bool {
	switch {
	case a == noKey && b == noKey, a >= 0 && b >= 0:
		return true
	case a >= 0 && a <= maxTTLDifference, b >= 0 && b <= maxTTLDifference:
		return true
	}
	return k == shadow.Write && (a == noKey || b == noKey)
}

// hasDoubtfulKey reports whether an operation has keys that servers may have expired by their own clocks
// before the mirror could prevent it.
func (p *Protocol) hasDoubtfulKey(op *shadow.Operation) bool {
	return slices.ContainsFunc(op.Keys, func(name string) bool {
		db, key := keyOf(name)
		return p.deadlines.isDoubtful(subject{db: db, key: key})
	})
}

// hasExpired reports whether a server has expired keys by its own clock.
func hasExpired(ctx context.Context, rdb *goredis.Client) bool {
	text, err := rdb.Info(ctx).Result()
	if err != nil {
		return true // INFO is not allowed
	}
	return parseInfo(text)["expired_keys"] != "0"
}

// ttlOf returns the time to live of a key, given the name that operations use for it.
func ttlOf(ctx context.Context, rdb *goredis.Client, name string) (l ttl, ok bool) {
	db, key := keyOf(name)
	conn := rdb.Conn()
	defer conn.Close()
	if n, err := strconv.Atoi(db); err != nil || n > 0 && conn.Select(ctx, n).Err() != nil {
		return noKey, false
	}
	left, err := conn.PTTL(ctx, key).Result()
	if left > tenYears-longestRun {
		return noExpiry, err == nil // the mirror expires it
	}
	return ttl(left), err == nil
}
