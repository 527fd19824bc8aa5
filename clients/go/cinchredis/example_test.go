package cinchredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/clients/go/cinchredis"
)

// A program shares a cache with others that use a gateway. Only the call of Attach is new.
func ExampleAttach() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "cache:6379"})
	defer rdb.Close()
	if err := cinchredis.Attach(ctx, rdb, cinchredis.Options{MaxValue: 4 << 20}); err != nil {
		log.Fatal(err)
	}

	if err := rdb.Set(ctx, "menu:7", `{"dish":"dumplings"}`, time.Hour).Err(); err != nil {
		log.Fatal(err)
	}
	menu, err := rdb.Get(ctx, "menu:7").Result()
	switch {
	case errors.Is(err, redis.Nil):
		fmt.Println("not cached")
	case errors.Is(err, cinchredis.ErrDamaged):
		rdb.Del(ctx, "menu:7") // it is lost: read it from the database again
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(menu)
	}
}

// A command that would compute on compressed bytes is not sent. The program does it on the value instead.
func ExampleAttach_refused() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "cache:6379"})
	defer rdb.Close()
	if err := cinchredis.Attach(ctx, rdb, cinchredis.Options{}); err != nil {
		log.Fatal(err)
	}

	n, err := rdb.StrLen(ctx, "menu:7").Result()
	if errors.Is(err, cinchredis.ErrRefused) {
		var menu string
		menu, err = rdb.Get(ctx, "menu:7").Result()
		n = int64(len(menu))
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "bytes")
}
