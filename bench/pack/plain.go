package main

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// plainPass is the baseline for the packer: SCAN returns pages of keys, and for each page a pipeline of GET
// reads the values and a pipeline of SET writes them back. The page size and parallelism are the packer's.
func plainPass(addr string, parallel int) error {
	const step = 256
	ctx := context.Background()
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	pages := make(chan []string)
	errs := make(chan error, parallel+1)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for keys := range pages {
				if err := rewrite(ctx, c, keys); err != nil {
					errs <- err
					for range pages { // so that the sender does not block
					}
					return
				}
			}
		})
	}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		keys, next, err := c.Scan(ctx, cursor, "", step).Result()
		if err != nil {
			errs <- err
			break
		}
		pages <- keys
		cursor = next
	}
	close(pages)
	workers.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func rewrite(ctx context.Context, c *redis.Client, keys []string) error {
	values := make([]*redis.StringCmd, len(keys))
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, k := range keys {
			values[i] = p.Get(ctx, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, k := range keys {
			p.Set(ctx, k, values[i].Val(), 0)
		}
		return nil
	})
	return err
}
