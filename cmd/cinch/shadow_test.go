package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/cli"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A run whose target is production under another name does not begin, and changes nothing.
func TestShadowRefusesProductionAsTarget(t *testing.T) {
	production, other := testenv.Redis(t), testenv.Redis(t)
	alias := strings.Replace(production.URL(), "127.0.0.1", "localhost", 1)
	for _, targets := range [][2]string{{alias, other.URL()}, {other.URL(), alias}, {production.URL(), other.URL()}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o := cli.Mirror{Servers: cli.Servers{Listeners: cli.Listeners{Redis: "127.0.0.1:0=" + production.URL()}, Control: targets[0], Test: targets[1]}, Memory: "1MiB", SelfTest: true}
		o.Config.Reads, o.Config.Margins = 1, shadow.Margins{P50: 0.05, P99: 0.1}
		o.Config.Batch, o.Config.Bound, o.Config.DataTime = time.Second, time.Millisecond, time.Minute
		err := o.Run(ctx, nil, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), "is production itself") {
			t.Errorf("%v: %v", targets, err)
		}
	}
	c := goredis.NewClient(&goredis.Options{Addr: production.Addr})
	defer c.Close()
	if stats := c.Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_set:") {
		t.Errorf("production was written to: %s", stats)
	}
}
