package redis

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A TLS client gets the same replies as others, although a TLS connection does not survive an interrupted
// write: to commands that the server answers late, large replies read slowly, and pipelines written before
// anything is read.
func TestClientsOverTLS(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	trust := &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}
	sock := startServer(t, "--enable-debug-command", "yes")
	path, _ := startGateway(t, sock, func(c *Config) {
		c.TLS, c.Stall = ca.Issue(t, "server").TLS(t), 100*time.Millisecond
		c.Replies = memory.NewBudget(128 << 20) // as by default
	})
	c := clientOf(t, path, func(o *goredis.Options) {
		o.TLSConfig = trust
	})
	expect(t, c, "SET k {long}", "OK", "STRLEN k", "1050")
	cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		p.Do(ctx, "DEBUG", "SLEEP", "0.2")
		p.Do(ctx, "APPEND", "k", "x")
		p.Do(ctx, "PING")
		return nil
	})
	if err != nil || cmds[1].(*goredis.Cmd).Val() != int64(1051) || cmds[2].(*goredis.Cmd).Val() != "PONG" {
		t.Fatal(cmds, err)
	}
	huge := strings.Repeat("0123456789abcdef", 512<<10) // 8 MiB
	if err := c.Set(ctx, "huge", huge, 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err = c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for range 5 {
			p.Get(ctx, "huge")
		}
		p.Do(ctx, "INCRBYFLOAT", "n", "1")
		p.Do(ctx, "SET", "other", huge)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("unix", path, trust)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET huge\r\n")); err != nil {
		t.Fatal(err)
	}
	buf, got := make([]byte, 64<<10), 0
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for got < len(huge)+len("$8388608\r\n\r\n") {
		time.Sleep(time.Millisecond)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
	}
}
