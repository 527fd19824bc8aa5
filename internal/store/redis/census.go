package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
)

// Census is how many stored values name which dictionary.
type Census struct {
	ByDict map[uint32]int
	Keys   int // looked at; a scan may meet a key twice
	// Unread are keys of types that Cinch does not know, modules' say. No gateway seals
	// what is in there.
	Unread int
}

// censusPage is how many keys, fields or elements are asked for at a time.
const censusPage = 512

// Count scans all databases of the server for values that name dictionaries. Wherever an
// envelope can lie is looked at: strings, hashes, streams, and what scripts may have moved
// into lists, sets and sorted sets. A scan misses what is renamed or moved behind its
// back. The client for each database is made from o and closed again.
func Count(ctx context.Context, o *goredis.Options) (Census, error) {
	c := Census{ByDict: map[uint32]int{}}
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
	own := *o
	client := goredis.NewClient(&own) // it fills in more, not to be shared
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

func (c *Census) database(ctx context.Context, o *goredis.Options, db int) error {
	own := *o
	own.DB = db
	client := goredis.NewClient(&own)
	defer client.Close()
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, "*", censusPage).Result()
		if err == nil {
			err = c.keys(ctx, client, keys)
		}
		if err != nil {
			return classify(err)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// keys asks for the types of all keys at once, and for the strings' headers.
func (c *Census) keys(ctx context.Context, client *goredis.Client, keys []string) error {
	types, err := pipelined(ctx, client, keys, func(p goredis.Pipeliner, key string) *goredis.StatusCmd {
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
			if err := c.collection(ctx, client, kind, key); err != nil && !isGone(err) {
				return err
			}
		}
	}
	headers, err := pipelined(ctx, client, texts, func(p goredis.Pipeliner, key string) *goredis.StringCmd {
		return p.GetRange(ctx, key, 0, int64(cinch.MaxHeaderLen)-1)
	})
	if err != nil {
		return err
	}
	for _, h := range headers {
		if err := h.Err(); err != nil && !isGone(err) { // after one that is gone
			return err
		}
		c.add(h.Val())
	}
	return nil
}

// pipelined asks one thing of each key. Answers that are errors, as when a key has
// another type by now, are the caller's to see.
func pipelined[T goredis.Cmder](ctx context.Context, client *goredis.Client, keys []string, ask func(goredis.Pipeliner, string) T) ([]T, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	answers := make([]T, len(keys))
	_, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, key := range keys {
			answers[i] = ask(p, key)
		}
		return nil
	})
	if err != nil && !isGone(err) {
		return nil, err
	}
	return answers, nil
}

// isGone: the key is of another type than it was a moment ago.
func isGone(err error) bool { return goredis.HasErrorPrefix(err, "WRONGTYPE") }

func (c *Census) collection(ctx context.Context, client *goredis.Client, kind, key string) error {
	switch kind {
	case "none":
		return nil
	case "hash":
		return c.scan(func(cursor uint64) ([]string, uint64, error) {
			return client.HScan(ctx, key, cursor, "*", censusPage).Result()
		})
	case "set":
		return c.scan(func(cursor uint64) ([]string, uint64, error) {
			return client.SScan(ctx, key, cursor, "*", censusPage).Result()
		})
	case "zset":
		return c.scan(func(cursor uint64) ([]string, uint64, error) {
			return client.ZScan(ctx, key, cursor, "*", censusPage).Result()
		})
	case "list":
		return c.list(ctx, client, key)
	case "stream":
		return c.stream(ctx, client, key)
	}
	c.Unread++
	return nil
}

// scan looks at all that a cursor gives, fields and scores too: they cost little.
func (c *Census) scan(page func(cursor uint64) ([]string, uint64, error)) error {
	for cursor := uint64(0); ; {
		elements, next, err := page(cursor)
		if err != nil {
			return err
		}
		c.add(elements...)
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// list goes from the end, so that what is pushed on either side meanwhile hides nothing.
func (c *Census) list(ctx context.Context, client *goredis.Client, key string) error {
	for at := int64(-1); ; at -= censusPage {
		elements, err := client.LRange(ctx, key, at-censusPage+1, at).Result()
		if err != nil || len(elements) == 0 {
			return err
		}
		c.add(elements...)
	}
}

func (c *Census) stream(ctx context.Context, client *goredis.Client, key string) error {
	for from := "-"; ; {
		entries, err := client.XRangeN(ctx, key, from, "+", censusPage).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			for _, v := range e.Values {
				if text, ok := v.(string); ok {
					c.add(text)
				}
			}
		}
		from = "(" + entries[len(entries)-1].ID
	}
}

func (c *Census) add(stored ...string) {
	for _, s := range stored {
		if h, err := cinch.ParseHeader([]byte(s[:min(len(s), cinch.MaxHeaderLen)])); err == nil && h.HasDict {
			c.ByDict[h.Dict]++
		}
	}
}
