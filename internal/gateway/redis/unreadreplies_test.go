package redis

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A client that writes a whole pipeline before it reads gets its replies, as from the server, even if a
// command in the middle has to wait for its answer while earlier replies fill every buffer.
func TestPipelineWrittenBeforeReading(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, func(c *Config) { c.Replies = memory.NewBudget(64 << 20) })
	big := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
	c := clientOf(t, path)
	if err := c.Set(ctx, "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, middle := range map[string][]string{
		"float": {"INCRBYFLOAT", "n", "1"}, "guard": {"APPEND", "big", ""}, "script": {"EVAL", "return 1", "1", "big"},
		"many": {"STRLEN", "big"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
			var request []byte
			const n = 20
			for range n {
				request = resp.AppendCommand(request, "GET", "big")
			}
			for range map[bool]int{true: 3000, false: 1}[name == "many"] {
				request = resp.AppendCommand(request, middle...)
			}
			for range n {
				request = resp.AppendCommand(request, "SET", "other", big)
			}
			request = resp.AppendCommand(request, "ECHO", "the end")
			if _, err := conn.Write(request); err != nil {
				t.Fatal("the gateway stopped taking requests:", err)
			}
			r := bufio.NewReaderSize(conn, 1<<16)
			for i := range n {
				if got := readBulk(t, r); got != big {
					t.Fatalf("reply %d: %d bytes", i, len(got))
				}
			}
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if line == "the end\r\n" {
					return
				}
			}
		})
	}
}

func readBulk(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	h, err := resp.ParseHead([]byte(line))
	if err != nil || h.Kind != resp.Bulk || h.N < 0 {
		t.Fatalf("%.100q %v", line, err)
	}
	b := make([]byte, h.N+2)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return string(b[:h.N])
}

// A client that reads nothing while others wait for its budget is disconnected.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, g := startGateway(t, sock, func(c *Config) {
		c.Replies, c.Stall = memory.NewBudget(3<<19), 200*time.Millisecond // 1.5 MiB
	})
	big := strings.Repeat("0123456789abcdef", 64<<10)
	c := clientOf(t, path)
	if err := c.Set(ctx, "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	lazy, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer lazy.Close()
	for range 20 {
		if _, err := lazy.Write(resp.AppendCommand(nil, "GET", "big")); err != nil {
			t.Fatal(err)
		}
	}
	for lazyHolds := false; !lazyHolds; time.Sleep(10 * time.Millisecond) {
		lazyHolds = g.cfg.Replies.InUse() > 0
	}
	for range 5 {
		if got, err := c.Get(ctx, "big").Result(); err != nil || got != big {
			t.Fatalf("another client: %d bytes, %v", len(got), err)
		}
	}
	_ = lazy.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if n, err := io.Copy(io.Discard, lazy); err != nil || n > 19<<20 {
		t.Errorf("the stalled client was not disconnected: %d bytes, %v", n, err)
	}
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	budget := memory.NewBudget(4 * queuePieceBytes)
	q := new(queue)
	q.init(budget)
	full := make(chan struct{})
	done := make(chan int)
	go func() {
		n := 0
		for q.push(entry{kind: kindComputed, data: &entryData{size: 1000}}, func() func() { close(full); return func() {} }) == nil {
			n++
		}
		done <- n
	}()
	<-full
	if got := budget.InUse(); got != 4*queuePieceBytes {
		t.Errorf("%d bytes of the budget in use", got)
	}
	q.close()
	n, most := <-done, (freeQueueBytes+4*queuePieceBytes)/1000
	if n < most/2 || n > most {
		t.Errorf("%d entries of about 1.4 KB in %d bytes", n, freeQueueBytes+4*queuePieceBytes)
	}
	if budget.InUse() != 0 {
		t.Error("the queue keeps budget")
	}
}

// bursting is a connection that panics on writes.
type bursting struct{ net.Conn }

func (bursting) Write([]byte) (int, error) { panic("write") }

// A panic while a spill sends ends the session, and no goroutine waits for the spill after that.
func TestSpillEndsAfterPanic(t *testing.T) {
	p := newParts(t)
	p.life.Client = bursting{p.life.Client}
	o := new(spill)
	o.init(p.life, p.codec)
	o.start([]byte("+OK\r\n"))
	done := make(chan struct{})
	go func() {
		o.wait()
		close(done)
	}()
	for _, c := range []<-chan struct{}{p.life.Context().Done(), done} {
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatal("the reply pump would wait for good")
		}
	}
	if taken, err := o.add([]byte("+OK\r\n")); taken || err == nil {
		t.Errorf("after that it takes more: %v %v", taken, err)
	}
}

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
