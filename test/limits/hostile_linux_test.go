package limits

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The names cover each way in which a request that does not fit the buffer is handled.
func TestMillionArguments(t *testing.T) {
	t.Parallel()
	const clients, arguments = 8, 1_000_000
	for _, name := range []string{"DEL", "MGET", "HSET", "BITOP", "EVAL", "NOSUCHCOMMAND"} {
		t.Run(name, func(t *testing.T) {
			if name != "MGET" {
				testenv.Full(t)
			}
			t.Parallel()
			_, g := start(t)
			var b bytes.Buffer
			fmt.Fprintf(&b, "*%d\r\n$%d\r\n%s\r\n$1\r\nk\r\n", arguments+2, len(name), name)
			b.WriteString(strings.Repeat("$1\r\nx\r\n", arguments))
			for range clients {
				c := mustDial(t, g.Addr)
				go func() { _, _ = c.Write(b.Bytes()) }() // stops at the end of the test
			}
			settle(t, g.Pid())
			if err := mustDial(t, g.Addr).ping(); err != nil {
				t.Error(err)
			}
			mustStayUnder(t, g.Pid(), limitTotal)
		})
	}
}

// The replies that a client has requested and not read yet are limited in bytes.
func TestPipelinersThatDoNotRead(t *testing.T) {
	t.Parallel()
	const clients, total = 8, 64 * mb // each client tries to send total bytes
	for name, args := range map[string][]string{
		"plain reads":    {"GET", "small"},
		"computed":       {"GETBIT", "small", "0"},
		"long arguments": {"GETBIT", strings.Repeat("k", 15000), "0"},
		"alternating":    {"HGETALL", "nothing"},
		"guarded":        {"APPEND", "grows", "0123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "computed" && name != "guarded" {
				testenv.Full(t)
			}
			t.Parallel()
			_, g := start(t)
			bigValue(t, g)
			request := encode(args...) + encode("GET", "small")
			batch := []byte(strings.Repeat(request, 1+mb/len(request)))
			for range clients {
				c := mustDial(t, g.Addr)
				if err := c.warmUp(args); err != nil {
					t.Fatal(err)
				}
				go func() {
					for range total / mb {
						if _, err := c.Write(batch); err != nil {
							return
						}
					}
				}()
			}
			settle(t, g.Pid())
			mustStayUnder(t, g.Pid(), limitTotal)
		})
	}
}

// warmUp first lets the session ask the server for all that it must know. It then blocks the replies with a
// large value that is not read.
func (c *client) warmUp(args []string) error {
	if _, err := io.WriteString(c, encode(args...)); err != nil {
		return err
	}
	if _, err := c.line(); err != nil {
		return err
	}
	return c.send([]byte("big"), "GET")
}

func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// Transactions that are never executed stay within the memory limit.
func TestOpenTransactions(t *testing.T) {
	t.Parallel()
	const commands, budget = 4, 64
	// The clients' values exceed the limit.
	clients, limit, args := 160, peakOf(budget*mb, 160, 0), []string{"--memory", fmt.Sprintf("%dMiB", budget)}
	if testenv.IsFull() {
		clients, limit, args = 256, limitTotal, nil
	}
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: testenv.Redis(t).Addr, Args: args})
	value := document(300<<10, 5)
	for range clients {
		c := mustDial(t, g.Addr)
		_ = c.SetDeadline(time.Now().Add(giveUp))
		if _, err := io.WriteString(c, encode("MULTI")); err != nil {
			t.Fatal(err)
		}
		for range commands {
			if err := c.send(value, "SET", "k"); err != nil {
				t.Fatal(err)
			}
		}
	}
	settle(t, g.Pid())
	mustStayUnder(t, g.Pid(), limit)
}
