package redis

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// A drain lets a client that reads slowly have all of a long reply: the server drops what it has yet to
// send when the gateway ends its side.
func TestDrainInALongReply(t *testing.T) {
	sock := startServer(t)
	value := strings.Repeat("plain ", 4<<20)
	clientOf(t, sock).Set(ctx, "k", value, 0)
	bulk := string(resp.AppendBulk(nil, value))
	for command, want := range map[string]string{"GET": bulk, "MGET": "*1\r\n" + bulk} {
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
