package redis

import (
	"context"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// Prefixes of keys, each followed by a number.
const (
	keyPrefix        = "cinch:dict:"
	archiveKeyPrefix = keyPrefix + "archive:" // see archive.go
	markKeyPrefix    = keyPrefix + "retired:"
)

// keys stores dictionaries in database 0 of a server without functions, under keys that begin with prefix.
type keys struct {
	client goredis.UniversalClient
	prefix string
}

func (k keys) name(number uint32) string { return fmt.Sprintf("%s%08x", k.prefix, number) }

func (k keys) get(ctx context.Context, number uint32) (*codec.Dict, error) {
	if err := k.checkDatabase(); err != nil {
		return nil, err
	}
	// GETRANGE, so that a huge value is not fetched only to be refused.
	content, err := k.client.GetRange(ctx, k.name(number), 0, maxStored).Bytes()
	switch {
	case goredis.HasErrorPrefix(err, "WRONGTYPE"):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case isElsewhere(err):
		return nil, envelope.ErrDictMissing
	case err != nil:
		return nil, classify(err)
	case len(content) == 0:
		return nil, envelope.ErrDictMissing
	case len(content) > maxStored:
		return nil, fmt.Errorf("%w: over %d bytes", ErrForeign, maxStored)
	}
	return parseContent(number, content)
}

func (k keys) add(ctx context.Context, d *codec.Dict) error {
	if err := k.checkDatabase(); err != nil {
		return err
	}
	return classify(k.client.SetNX(ctx, k.name(d.Number()), d.Content(), 0).Err())
}

func (k keys) remove(ctx context.Context, number uint32) error {
	if err := k.checkDatabase(); err != nil {
		return err
	}
	if err := k.client.Del(ctx, k.name(number)).Err(); !isElsewhere(err) {
		return classify(err)
	}
	return nil
}

// checkDatabase refuses a client of another database, whose keys no reader would find.
func (k keys) checkDatabase() error {
	if c, ok := k.client.(*goredis.Client); ok && c.Options().DB != 0 {
		return fmt.Errorf("%w: dictionaries are stored in database 0, the client uses %d", errClient, c.Options().DB)
	}
	return nil
}

// evictionPolicy returns ErrEvictable if the server may evict keys without an expiry. Any other error means
// that the server did not report its policy.
func (k keys) evictionPolicy(ctx context.Context) error {
	config, err := k.client.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return classify(err)
	}
	if policy := config["maxmemory-policy"]; strings.HasPrefix(policy, "allkeys-") {
		return fmt.Errorf("%w: maxmemory-policy is %s; set volatile-* or noeviction, or use Redis 7", ErrEvictable, policy)
	}
	return nil
}

// numbers lists the dictionaries in the keyspace, for which it scans all keys.
func (k keys) numbers(ctx context.Context) ([]uint32, error) {
	if err := k.checkDatabase(); err != nil {
		return nil, err
	}
	seen := make(map[uint32]bool) // a scan may return a key twice
	var numbers []uint32
	it := k.client.Scan(ctx, 0, k.prefix+"*", 1000).Iterator()
	for it.Next(ctx) {
		if n, ok := parseNumber(it.Val(), k.prefix); ok && !seen[n] {
			seen[n] = true
			numbers = append(numbers, n)
		}
	}
	return numbers, classify(it.Err())
}
