package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
)

// RefCounts counts the stored values that name each dictionary.
type RefCounts struct {
	ByDict map[uint32]int
	Keys   int // examined; a scan may return a key twice
	// Unread counts keys of types that Cinch does not know, such as those of modules. Gateways compress nothing in
	// such keys.
	Unread int
}

// refCountPage is the number of keys requested at a time.
const refCountPage = 512

// Count scans all databases of the server for values that name dictionaries. It looks wherever an envelope
// can be: in strings, hashes and streams, and in lists, sets and sorted sets, into which scripts may have
// moved one. A scan misses values that are renamed or moved meanwhile. Count makes a client for each database
// from o and closes it again.
func Count(ctx context.Context, o *goredis.Options) (RefCounts, error) {
	c := RefCounts{ByDict: map[uint32]int{}}
	databases, err := usedDatabases(ctx, o)
	for _, db := range databases {
		if err == nil {
			err = c.database(ctx, o, db)
		}
	}
	if err != nil {
		return c, fmt.Errorf("count values: %w", err)
	}
	return c, nil
}

func usedDatabases(ctx context.Context, o *goredis.Options) ([]int, error) {
	client := goredis.NewClient(o)
	defer client.Close()
	info, err := client.Info(ctx, "keyspace").Result()
	if err != nil {
		return nil, classify(err)
	}
	var databases []int
	for line := range strings.Lines(info) {
		name, _, ok := strings.Cut(line, ":")
		digits, isDB := strings.CutPrefix(name, "db")
		if n, err := strconv.Atoi(digits); ok && isDB && err == nil {
			databases = append(databases, n)
		}
	}
	return databases, nil
}

// database counts on one connection. If that ends, so does the count: cursors mean nothing to another process, to
// which a new connection may lead after a restart or a failover.
func (c *RefCounts) database(ctx context.Context, o *goredis.Options, db int) error {
	own := *o
	own.DB = db
	client := goredis.NewClient(&own)
	defer client.Close()
	conn := client.Conn()
	defer conn.Close()
	for cursor := uint64(0); ; {
		keys, next, err := conn.Scan(ctx, cursor, "*", refCountPage).Result()
		if err == nil {
			err = c.keys(ctx, conn, keys)
		}
		if err != nil {
			return classify(err)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// keys gets the types of all keys in one round trip, and then the headers of the strings.
func (c *RefCounts) keys(ctx context.Context, conn *goredis.Conn, keys []string) error {
	types, err := pipe(ctx, conn, keys, func(p goredis.Pipeliner, key string) *goredis.StatusCmd {
		return p.Type(ctx, key)
	})
	if err != nil {
		return err
	}
	var texts []string
	for i, key := range keys {
		c.Keys++
		switch kind, err := types[i].Result(); {
		case err != nil:
			return err
		case kind == "string":
			texts = append(texts, key)
		default:
			if err := c.collection(ctx, conn, kind, key); err != nil && !isGone(err) {
				return err
			}
		}
	}
	headers, err := pipe(ctx, conn, texts, func(p goredis.Pipeliner, key string) *goredis.StringCmd {
		return p.GetRange(ctx, key, 0, int64(envelope.MaxHeaderLen)-1)
	})
	if err != nil {
		return err
	}
	for _, h := range headers {
		if err := h.Err(); err != nil && !isGone(err) { // gone: it was replaced since TYPE
			return err
		}
		c.add(h.Val())
	}
	return nil
}

// isGone reports whether the key has changed its type since TYPE.
func isGone(err error) bool { return goredis.HasErrorPrefix(err, "WRONGTYPE") }

func (c *RefCounts) collection(ctx context.Context, conn *goredis.Conn, kind, key string) error {
	switch kind {
	case "none":
		return nil
	case "hash":
		return c.scan(func(cursor uint64, step int64) ([]string, uint64, error) {
			return conn.HScan(ctx, key, cursor, "*", step).Result()
		})
	case "set":
		return c.scan(func(cursor uint64, step int64) ([]string, uint64, error) {
			return conn.SScan(ctx, key, cursor, "*", step).Result()
		})
	case "zset":
		return c.scan(func(cursor uint64, step int64) ([]string, uint64, error) {
			return conn.ZScan(ctx, key, cursor, "*", step).Result()
		})
	case "list":
		return c.list(ctx, conn, key)
	case "stream":
		return c.stream(ctx, conn, key)
	}
	c.Unread++
	return nil
}

// scan examines everything that a cursor returns, fields and scores too: that costs little.
func (c *RefCounts) scan(page func(cursor uint64, step int64) ([]string, uint64, error)) error {
	for cursor, step := uint64(0), int64(firstStep); ; {
		elements, next, err := page(cursor, step)
		if err != nil {
			return err
		}
		c.add(elements...)
		if next == 0 {
			return nil
		}
		cursor, step = next, nextStep(step, totalLen(elements))
	}
}

// list starts at the end, so that concurrent pushes on either side hide no elements.
func (c *RefCounts) list(ctx context.Context, conn *goredis.Conn, key string) error {
	for at, step := int64(-1), int64(firstStep); ; {
		elements, err := conn.LRange(ctx, key, at-step+1, at).Result()
		if err != nil || len(elements) == 0 {
			return err
		}
		c.add(elements...)
		at, step = at-step, nextStep(step, totalLen(elements))
	}
}

func (c *RefCounts) stream(ctx context.Context, conn *goredis.Conn, key string) error {
	for from, step := "-", int64(firstStep); ; {
		entries, err := conn.XRangeN(ctx, key, from, "+", step).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		size := int64(0)
		for _, e := range entries {
			for field, v := range e.Values {
				if text, ok := v.(string); ok {
					c.add(text)
					size += int64(len(field) + len(text))
				}
			}
		}
		from, step = "("+entries[len(entries)-1].ID, nextStep(step, size)
	}
}

func (c *RefCounts) add(stored ...string) {
	for _, s := range stored {
		if h, err := envelope.ParseHeader([]byte(s[:min(len(s), envelope.MaxHeaderLen)])); err == nil && h.HasDict {
			c.ByDict[h.Dict]++
		}
	}
}
