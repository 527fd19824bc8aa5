package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig"
)

const valueBytes = 200

var redisSide = &side{
	name: "redis",
	load: fmt.Sprintf("GET and SET of %d bytes in turns", valueBytes),
	start: func(work string, durable bool) (*rig.Process, error) {
		if durable {
			return rig.Redis(work, "--appendonly", "yes")
		}
		return rig.Redis(work)
	},
	url:  func(addr string) string { return "redis://" + addr },
	work: workRedis,
}

func workRedis(addr string, client int, until time.Time, took func(time.Duration)) error {
	ctx := context.Background()
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1})
	defer c.Close()
	value := strings.Repeat("v", valueBytes)
	for n := 0; time.Now().Before(until); n++ {
		key := fmt.Sprintf("k:%d:%d", client, n%100)
		began := time.Now()
		var err error
		if n%2 == 0 {
			err = c.Set(ctx, key, value, 0).Err()
		} else {
			err = c.Get(ctx, key).Err()
		}
		if err != nil && !errors.Is(err, goredis.Nil) {
			return err
		}
		took(time.Since(began))
	}
	return nil
}
