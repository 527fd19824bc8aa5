package redis

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Entries that a transaction queues for the replies of EXEC take budget until those have arrived, or the
// transaction is discarded. Without memory its commands are refused.
func TestQueuedCommandsTakeBudget(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, g := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(8 << 20) })
	use := g.cfg.Requests
	const commands, size = 1000, entryBytes + entryDataBytes
	queue := func(c interface{ Write([]byte) (int, error) }, n int) {
		all := resp.AppendCommand(nil, "MULTI")
		for range n {
			all = resp.AppendCommand(all, "GETBIT", "k", "0")
		}
		if _, err := c.Write(all); err != nil {
			t.Fatal(err)
		}
	}
	for end, answer := range sorted(map[string]string{"EXEC": fmt.Sprintf("*%d\r\n", commands) + strings.Repeat(":0\r\n", commands), "DISCARD": "+OK\r\n"}) {
		c := dialRaw(t, front)
		queue(c, commands)
		readExactly(t, c, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands))
		if n := use.InUse(); n < (commands-1)*size-freeQueueBytes {
			t.Errorf("%s: %d bytes are taken for %d commands of %d", end, n, commands, size)
		}
		write(t, c, string(resp.AppendCommand(nil, end)))
		readExactly(t, c, answer)
		testenv.Eventually(t, "the memory is given back", func() bool { return use.InUse() == 0 })
	}
	scarce, _ := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(queuePieceBytes) })
	c := dialRaw(t, scarce)
	queue(c, commands)
	write(t, c, string(resp.AppendCommand(nil, "EXEC")))
	r := bufio.NewReader(c)
	refused := 0
	for range commands + 2 {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "no memory is free") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// Everything that a transaction queues takes budget: replies of alternating shapes, which can't be counted
// together, and commands that the gateway handles itself.
func TestWhatTransactionsQueueIsBounded(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	for name, words := range sorted(map[string][2][]string{
		"replies of two shapes": {{"GET", "k"}, {"HGETALL", "h"}},
		"controls":              {{"SELECT", "0"}, {"SELECT", "0"}},
	}) {
		t.Run(name, func(t *testing.T) {
			front, g := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(64 << 20) })
			c := dialRaw(t, front)
			const n = 5000
			all := resp.AppendCommand(nil, "MULTI")
			for range n {
				all = resp.AppendCommand(resp.AppendCommand(all, words[0]...), words[1]...)
			}
			write(t, c, string(all))
			readExactly(t, c, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", 2*n))
			if got := g.cfg.Requests.InUse(); got < 2*n*entryBytes-freeQueueBytes-queuePieceBytes {
				t.Errorf("%d bytes are taken for %d commands", got, 2*n)
			}
			write(t, c, string(resp.AppendCommand(nil, "DISCARD")))
			readExactly(t, c, "+OK\r\n")
			testenv.Eventually(t, "the memory is given back", func() bool { return g.cfg.Requests.InUse() == 0 })
		})
	}
}

// A client that stops in the middle of a value that is not compressed, with a transaction open that holds
// memory others wait for, is disconnected.
func TestTransactionThatStopsInAValue(t *testing.T) {
	t.Parallel()
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Key: "k*", Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(Config{
		Policy: rules, Requests: memory.NewBudget(8 << 20), Stall: time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis"),
	})
	client, server := slowlyAt(t, g)
	_, value := sealedNoise(300 << 10)
	begin := resp.AppendCommand(resp.AppendCommand(nil, "MULTI"), "SET", "k", value)
	go func() { _, _ = client.Write(append(begin, "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1000000\r\nabc"...)) }()
	server.next()
	server.next()
	server.say("+OK\r\n+QUEUED\r\n")
	readExactly(t, client, "+OK\r\n+QUEUED\r\n")
	if g.cfg.Requests.InUse() < 300<<10 {
		t.Fatal("the transaction holds nothing")
	}
	defer useUp(t, g)()
	other := g.requests.Account(nil, nil)
	defer other.Close()
	go func() { _ = other.Acquire(t.Context(), usedUp) }()
	testenv.Eventually(t, "a client waits", func() bool { return g.cfg.Requests.Waiting() > 0 })
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the client has something to read")
	}
	if g.cfg.Stats.Snapshot().Errors["stalled"] == 0 {
		t.Error("it was not cut off")
	}
}

// A client that waits for the replies of EXEC is not disconnected because the server is slow. A client that
// keeps its transaction waiting is.
func TestSlowExecIsNotItsClientsFault(t *testing.T) {
	t.Parallel()
	g := NewGateway(Config{Requests: memory.NewBudget(8 << 20), Stall: time.Millisecond, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
	const commands = 500
	begun := func(end ...string) (client net.Conn, server *scriptedServer) {
		client, server = slowlyAt(t, g)
		all := resp.AppendCommand(nil, "MULTI")
		for range commands {
			all = resp.AppendCommand(all, "GETBIT", "k", "0")
		}
		for _, e := range end {
			all = resp.AppendCommand(all, e)
		}
		go func() { _, _ = client.Write(all) }()
		server.next()
		server.say("+OK\r\n")
		for range commands {
			server.next()
			server.say("+QUEUED\r\n")
		}
		for range end {
			server.next()
		}
		readExactly(t, client, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands))
		return client, server
	}
	patient, server := begun("EXEC")
	lazy, _ := begun()
	defer useUp(t, g)()
	other := g.requests.Account(nil, nil)
	defer other.Close()
	go func() { _ = other.Acquire(t.Context(), usedUp) }()
	if _, err := lazy.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client that lets a transaction wait is not cut off:", err)
	}
	replies := fmt.Sprintf("*%d\r\n", commands) + strings.Repeat(":0\r\n", commands)
	go func() { _, _ = server.conn.Write([]byte(replies)) }()
	readExactly(t, patient, replies)
	if n := g.cfg.Stats.Snapshot().Errors["stalled"]; n != 1 {
		t.Errorf("%d were cut off", n)
	}
}

// A client that waits for +QUEUED is not disconnected because the server is slow. Once the answer has arrived
// the client must continue.
func TestSlowQueuedIsNotItsClientsFault(t *testing.T) {
	t.Parallel()
	g := NewGateway(Config{Requests: memory.NewBudget(8 << 20), Stall: time.Millisecond, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
	const commands = 500
	client, server := slowlyAt(t, g)
	all := resp.AppendCommand(nil, "MULTI")
	for range commands {
		all = resp.AppendCommand(all, "GETBIT", "k", "0")
	}
	go func() { _, _ = client.Write(all) }()
	server.next()
	server.say("+OK\r\n")
	for range commands - 1 {
		server.next()
		server.say("+QUEUED\r\n")
	}
	server.next()
	readExactly(t, client, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands-1))
	lazy, other := slowlyAt(t, g) // its disconnect shows that the stall detector has had time
	go func() { _, _ = lazy.Write(all) }()
	for i := range commands + 1 {
		other.next()
		other.say(map[bool]string{true: "+OK\r\n", false: "+QUEUED\r\n"}[i == 0])
	}
	readExactly(t, lazy, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands))
	defer useUp(t, g)()
	waits := g.requests.Account(nil, nil)
	defer waits.Close()
	go func() { _ = waits.Acquire(t.Context(), usedUp) }()
	if _, err := lazy.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client that lets a transaction wait is not cut off:", err)
	}
	server.say("+QUEUED\r\n")
	readExactly(t, client, "+QUEUED\r\n")
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("nor when it was its turn:", err)
	}
}
