package redis

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The admin page shows the progress of a training, and the dictionary that it makes.
func TestTrainingIsShown(t *testing.T) {
	testenv.Full(t)
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: server.Addr, Process: testenv.SlowTraining, Rules: "- {name: docs, key: 'doc:*', setting: zstd-3, dictionary: auto}",
	})
	c := goredis.NewClient(&goredis.Options{Addr: g.Addr})
	defer c.Close()
	n := 0
	feed := func() {
		_, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for range 100 {
				n++
				p.Set(t.Context(), fmt.Sprint("doc:", n), testenv.Reading(n), 0)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	testenv.TrainsVisibly(t, g, feed)
	testenv.HasDictionary(t, g)
}
