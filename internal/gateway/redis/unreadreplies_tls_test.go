package redis

import (
	"bufio"
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A TLS client that reads nothing is disconnected when others wait for the memory of its replies, even though
// the gateway has waited for the server in the meantime.
func TestStalledClientOverTLS(t *testing.T) {
	t.Parallel()
	sealed, _ := sealedNoise(700 << 10)
	g := NewGateway(Config{MaxSeal: 32 << 20, Replies: memory.NewBudget(32 << 20), Stall: time.Millisecond, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
	client, side := socketPair(t)
	up, down := socketPair(t)
	for _, c := range []interface{ SetDeadline(time.Time) error }{client, down} {
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	}
	s := newSession(g, tls.Server(side, testenv.NewAuthority(t).Issue(t, "server").TLS(t)), up, time.Now())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run() }()
	t.Cleanup(func() {
		_, _, _ = client.Close(), down.Close(), s.Close()
		<-ended
	})
	secured := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	write(t, secured, string(resp.AppendCommand(resp.AppendCommand(nil, "GET", "k"), "GET", "k")))
	server := &scriptedServer{t: t, conn: down, in: bufio.NewReader(down)}
	use := g.cfg.Replies
	for i := range 2 {
		server.next()
		if _, err := down.Write(resp.AppendBulk(nil, sealed)); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the reply waits for the client", func() bool { return use.InUse() >= int64(i+1)*500<<10 })
	}
	for range 3 { // the last one has to wait
		other := g.replies.Account(nil, nil)
		go func() { _ = other.Acquire(t.Context(), 64<<20) }()
		defer other.Close()
	}
	testenv.Eventually(t, "it is cut off", func() bool { return g.cfg.Stats.Snapshot().Errors["stalled"] > 0 })
}
