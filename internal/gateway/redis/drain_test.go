package redis

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A drain lets a client that reads slowly have all of a long reply. The server would drop the rest if the
// gateway ended its side.
func TestDrainInALongReply(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	value := strings.Repeat("plain ", 4<<20)
	clientOf(t, sock).Set(ctx, "k", value, 0)
	bulk := string(resp.AppendBulk(nil, value))
	for command, want := range sorted(map[string]string{"GET": bulk, "MGET": "*1\r\n" + bulk}) {
		front, g := startGateway(t, sock, func(c *Config) { c.Policy = nil })
		c := dialRaw(t, front)
		write(t, c, string(resp.AppendCommand(nil, command, "k")))
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got[:1]); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			end, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			ended <- g.Shutdown(end)
		}()
		time.Sleep(10 * gateway.DrainPoll)
		if n, err := io.ReadFull(c, got[1:]); err != nil || string(got) != want {
			t.Errorf("%s: %d of %d bytes, %v", command, n+1, len(want), err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// After the grace period a drain ends clients that are blocked in a command or have a transaction open, like a server
// that shuts down: their commands are not answered, and pop nothing from a list. They get what arrived during the
// grace period.
func TestDrainEndsClientsThatWait(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	direct.XAdd(ctx, &goredis.XAddArgs{Stream: "stream", Values: []string{"f", "v"}})
	direct.XGroupCreate(ctx, "stream", "group", "$")
	front, g := startGateway(t, sock, func(c *Config) { c.Grace = 50 * gateway.DrainPoll })
	waiting := map[string]net.Conn{}
	for _, command := range []string{
		"BLPOP list 0", "BRPOP list 0", "BLMOVE list other LEFT RIGHT 0", "BLMPOP 0 1 list LEFT", "BZPOPMIN zset 0", "XREAD BLOCK 0 STREAMS stream $",
		"XREADGROUP GROUP group me BLOCK 0 STREAMS stream >", "WAIT 1 0",
	} {
		c := dialRaw(t, front)
		write(t, c, string(resp.AppendCommand(nil, strings.Fields(command)...)))
		waiting[command] = c
	}
	multi := dialRaw(t, front)
	write(t, multi, "MULTI\r\nSET k v\r\n")
	readExactly(t, multi, "+OK\r\n+QUEUED\r\n")
	late := dialRaw(t, front)
	write(t, late, "BLPOP late 0\r\n")
	testenv.Eventually(t, "all wait", func() bool {
		return strings.Contains(direct.Info(ctx, "clients").Val(), fmt.Sprintf("blocked_clients:%d\r", len(waiting)+1))
	})
	ended := make(chan error)
	go func() { ended <- g.Shutdown(context.Background()) }()
	direct.RPush(ctx, "late", "item")
	readExactly(t, late, "*2\r\n$4\r\nlate\r\n$4\r\nitem\r\n")
	for command, c := range waiting {
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
			t.Errorf("%s: %q, %v", command, got, err)
		}
	}
	if got, err := io.ReadAll(multi); len(got) > 0 || err != nil {
		t.Errorf("MULTI: %q, %v", got, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "no client waits at the server", func() bool {
		return strings.Contains(direct.Info(ctx, "clients").Val(), "blocked_clients:0\r")
	})
	direct.RPush(ctx, "list", "item")
	if n := direct.LLen(ctx, "list").Val(); n != 1 {
		t.Errorf("%d items are left of one: a client that is gone took it", n)
	}
}

// A client that connects just before a drain gets an answer to its first request.
func TestDrainAnswersTheFirstRequest(t *testing.T) {
	t.Parallel()
	front, g := startGateway(t, startServer(t), func(c *Config) {})
	c := dialRaw(t, front)
	testenv.Eventually(t, "it is connected", func() bool { return g.cfg.Stats.Snapshot().Connections.Open == 1 })
	ended := make(chan error)
	go func() { ended <- g.Shutdown(context.Background()) }()
	time.Sleep(3 * gateway.DrainPoll)
	write(t, c, "PING\r\n")
	if got, err := io.ReadAll(c); string(got) != "+PONG\r\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Commands that a client has sent before it ends its side are carried out, however long the server takes. That includes
// commands that wait for the reply to an earlier one, and commands that take several steps.
func TestHalfClosedClientsCommandsRun(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, _ := startGateway(t, sock)
	expect(t, clientOf(t, front), "SET sealed {long}", "OK")
	expect(t, direct, "CLIENT PAUSE 60000 WRITE", "OK")
	c := dialRaw(t, front)
	write(t, c, "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$6\r\nAPPEND\r\n$6\r\nsealed\r\n$1\r\n!\r\n")
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * patience) // time in which the gateway notices the end, which must have no effect yet
	expect(t, direct, "CLIENT UNPAUSE", "OK")
	testenv.Eventually(t, "the last one runs", func() bool { return do(clientOf(t, front), "GET sealed") == long+"!" })
	expect(t, direct, "SELECT 1", "OK", "GET a", "1")
}
