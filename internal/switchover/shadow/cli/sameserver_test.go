package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// If control and test are one server, under whatever names, they would be equal in everything and get each
// write twice: the run does not begin.
func TestTargetsAreTwoServers(t *testing.T) {
	t.Parallel()
	redis, otherRedis := testenv.Redis(t).URL(), testenv.Redis(t).URL()
	sql, otherSQL := testenv.Postgres(t).URL(), testenv.Postgres(t).URL()
	mongo, otherMongo := mongotest.Start(t, mongotest.Config{}).URI(), mongotest.Start(t, mongotest.Config{}).URI()
	for _, c := range []struct {
		listeners     Listeners
		control, test string
	}{
		{Listeners{Redis: "127.0.0.1:0=" + otherRedis}, redis, redis},
		{Listeners{Redis: "127.0.0.1:0=" + otherRedis}, redis, alias(redis)},
		{Listeners{Redis: "127.0.0.1:0=" + otherRedis}, redis, "cinch=" + alias(redis)},
		{Listeners{Postgres: "127.0.0.1:0=" + otherSQL}, sql, alias(sql)},
		{Listeners{Mongo: "127.0.0.1:0=" + otherMongo}, mongo, alias(mongo)},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o := Mirror{Servers: Servers{Listeners: c.listeners, Control: c.control, Test: c.test}, Memory: "1MiB", SelfTest: true}
		o.Config.Reads, o.Config.Batch, o.Config.Margins = 1, time.Second, shadow.Margins{P50: 0.05, P99: 0.1}
		o.Config.Bound, o.Config.DataTime = time.Millisecond, time.Minute
		err := o.Run(ctx, nil, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), "control and test are the same server") {
			t.Errorf("%s and %s: %v", c.control, c.test, err)
		}
	}
}

func alias(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }
