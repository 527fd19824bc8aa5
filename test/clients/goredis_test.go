package clients

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

// goRedis runs the scenario with go-redis, in this process.
type goRedis struct {
	addr string
	resp int
	*scenario

	a, b *redis.Client // one connection each, so that SELECT stays in effect
}

// runGoRedis returns one line per operation.
func runGoRedis(ctx context.Context, addr string, resp int, path string) (string, error) {
	s, err := loadScenario(path)
	if err != nil {
		return "", err
	}
	steps, err := s.expand(resp)
	if err != nil {
		return "", err
	}
	g := &goRedis{addr: addr, resp: resp, scenario: s}
	g.a, g.b = g.connect(), g.connect()
	defer g.a.Close()
	defer g.b.Close()

	var out strings.Builder
	for _, st := range steps {
		fmt.Fprintf(&out, "%s\t%s\n", st.Name, g.run(ctx, st))
	}
	return out.String(), nil
}

func (g *goRedis) connect() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: g.addr, Protocol: g.resp, PoolSize: 1, MaxRetries: -1,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, ContextTimeoutEnabled: true,
	})
}

func (g *goRedis) run(ctx context.Context, st step) string {
	switch {
	case st.Cmd != nil:
		reply := g.call(ctx, g.a, st.Cmd)
		if text, ok := reply.(string); ok && st.Save != "" {
			g.saved[st.Save] = []byte(text)
		}
		return normalise(st.Norm, reply)
	case st.Pipeline != nil:
		return g.pipeline(ctx, g.a.Pipeline(), st.Pipeline)
	case st.Multi != nil:
		return g.multi(ctx, st)
	case st.Block != nil:
		return g.block(ctx, st)
	case st.Subscribe != "":
		return g.subscribe(ctx, st)
	case st.Track != "":
		return g.track(ctx, st)
	}
	return "unknown step"
}

func (g *goRedis) call(ctx context.Context, c *redis.Client, args []argument) any {
	return result(c.Do(ctx, g.args(args)...))
}

func result(cmd *redis.Cmd) any {
	x, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	return x
}

func (g *goRedis) pipeline(ctx context.Context, p redis.Pipeliner, list [][]argument) string {
	cmds := make([]*redis.Cmd, len(list))
	for i, args := range list {
		cmds[i] = p.Do(ctx, g.args(args)...)
	}
	_, err := p.Exec(ctx)
	if errors.Is(err, redis.TxFailedErr) {
		return show(err)
	}
	replies := make([]any, len(cmds))
	for i, cmd := range cmds {
		replies[i] = result(cmd)
	}
	return show(replies)
}

func (g *goRedis) multi(ctx context.Context, st step) string {
	if st.Watch == nil {
		return g.pipeline(ctx, g.a.TxPipeline(), st.Multi)
	}
	var out string
	err := g.a.Watch(ctx, func(tx *redis.Tx) error {
		for _, args := range st.Meanwhile {
			g.call(ctx, g.b, args)
		}
		out = g.pipeline(ctx, tx.TxPipeline(), st.Multi)
		return nil
	}, st.Watch...)
	if err != nil {
		return show(err)
	}
	return out
}

// block blocks a third connection and lets the second one unblock it.
func (g *goRedis) block(ctx context.Context, st step) string {
	c := g.connect()
	defer c.Close()
	blocked := make(chan any, 1)
	go func() { blocked <- g.call(ctx, c, st.Block) }()

	for range 2000 {
		if info, _ := g.b.Info(ctx, "clients").Result(); strings.Contains(info, "blocked_clients:1") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	replies := make([]any, 0, len(st.Then)+1)
	for _, args := range st.Then {
		replies = append(replies, g.call(ctx, g.b, args))
	}
	return show(append(replies, <-blocked))
}

func (g *goRedis) subscribe(ctx context.Context, st step) string {
	c := g.connect()
	defer c.Close()
	sub := c.Subscribe(ctx, st.Subscribe)
	defer sub.Close()

	replies := []any{g.message(ctx, sub)}
	for _, a := range st.Publish {
		n, err := g.b.Publish(ctx, st.Subscribe, g.bytes(a)).Result()
		replies = append(replies, n, err, g.message(ctx, sub))
	}
	return show(replies)
}

func (g *goRedis) message(ctx context.Context, sub *redis.PubSub) any {
	x, err := sub.ReceiveTimeout(ctx, 20*time.Second)
	switch m := x.(type) {
	case *redis.Subscription:
		return []any{m.Kind, m.Channel, m.Count}
	case *redis.Message:
		return []any{m.Channel, m.Payload}
	}
	return err
}

// invalidations collects the keys of client tracking's pushes. go-redis calls it while it reads replies, in
// the goroutine that made the call.
type invalidations struct{ keys []any }

func (h *invalidations) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	h.keys = append(h.keys, n[1:]...)
	return nil
}

func (g *goRedis) track(ctx context.Context, st step) string {
	c := g.connect()
	defer c.Close()
	pushed := &invalidations{}
	if err := c.RegisterPushNotificationHandler("invalidate", pushed, false); err != nil {
		return show(err)
	}
	replies := []any{result(c.Do(ctx, "CLIENT", "TRACKING", "ON"))}
	for _, a := range st.Values {
		replies = append(replies, result(c.Do(ctx, "GET", st.Track)))
		replies = append(replies, result(g.b.Do(ctx, "SET", st.Track, g.bytes(a))))
		for i := 0; i < 2000 && len(pushed.keys) == 0; i++ {
			c.Ping(ctx) // pushes are read along with replies
			time.Sleep(time.Millisecond)
		}
		replies = append(replies, pushed.keys)
		pushed.keys = nil
	}
	return show(append(replies, result(c.Do(ctx, "GET", st.Track))))
}
