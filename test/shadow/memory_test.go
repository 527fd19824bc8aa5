package shadow

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

const mib = 1 << 20

// The process stays within the limit that docs/SHADOW.md names, whatever its memory holds: operations for
// frozen targets, incomplete requests, or replies in transit.
func TestMemoryOfTheProcess(t *testing.T) {
	testenv.Full(t)
	const memory, connections = 64 * mib, 64
	for name, c := range map[string]struct {
		freeze bool
		work   func(ctx context.Context, c *goredis.Client, n int)
	}{
		"writes wait for frozen targets": {true, func(ctx context.Context, c *goredis.Client, n int) {
			value := strings.Repeat("v", mib)
			for i := range 20 {
				c.Set(ctx, fmt.Sprint(n, i%2), value, 0)
			}
		}},
		"small writes wait for frozen targets": {true, func(ctx context.Context, c *goredis.Client, n int) {
			for i := range 40 {
				_, _ = c.Pipelined(ctx, func(p goredis.Pipeliner) error {
					for k := range 200 {
						p.Set(ctx, fmt.Sprint("a key of some length:", n, i, k), "v", 0)
					}
					return nil
				})
			}
		}},
		"connections come and go, and targets are frozen": {true, func(ctx context.Context, c *goredis.Client, n int) {
			for i := range 100 {
				if err := once(c.Options().Addr, fmt.Sprintf("SET %d:%d v\r\n", n, i)); err != nil {
					return // the following Ping fails too
				}
			}
		}},
		"large pipelines are not complete": {false, func(ctx context.Context, c *goredis.Client, n int) {
			value := strings.Repeat("v", 3*mib)
			_, _ = c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				for range 5 {
					p.Set(ctx, fmt.Sprint(n), value, 0)
				}
				return nil
			})
		}},
		"large answers": {false, func(ctx context.Context, c *goredis.Client, n int) {
			c.Set(ctx, fmt.Sprint(n%8), strings.Repeat("v", 4*mib), 0)
			for range 5 {
				c.Get(ctx, fmt.Sprint(n%8))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			production, control, test := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
			addr, admin := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
			cmd := exec.Command(testenv.Cinch(t), "shadow", "--self-test=false", "--bound", "1m", "--memory", fmt.Sprint(memory), "--admin", admin,
				"--redis", addr+"="+production.URL(), "--control", control.URL(), "--test", test.URL())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			testenv.Eventually(t, "clients may connect", func() bool { return testenv.AnswersPing("tcp", addr) })
			if c.freeze {
				stop(t, control, test)
			}
			held, on := heldWhile(t, admin, func() { crowd(t, addr, connections, c.work) })
			operations := testenv.AdminMetric(t, admin, "cinch_shadow_operations_total")
			if c.freeze && on >= patience { // a frozen target is given up after that time
				on = always
			}
			if on < always || held == 0 || !c.freeze && operations == 0 {
				t.Errorf("the mirror was off after %v; it held %g bytes at most, and the targets did %g operations", on, held, operations)
			}
			peak := testenv.OwnPeak(t, cmd.Process.Pid)
			most := int64(memory*12/10 + 48*mib + connections*48<<10)
			t.Logf("%d MiB at most, with --memory %d MiB", peak/mib, memory/mib)
			if peak > most {
				t.Errorf("%d MiB, more than %d", peak/mib, most/mib)
			}
		})
	}
}

// How long the mirror was on: to the end, or about until it gave up a frozen target, which takes ten
// seconds.
const (
	always   = time.Duration(math.MaxInt64)
	patience = 9 * time.Second
)

// heldWhile returns the largest cinch_shadow_held_bytes seen while work ran, and how long the mirror was
// on.
func heldWhile(t *testing.T, admin string, work func()) (most float64, on time.Duration) {
	t.Helper()
	began, on := time.Now(), always
	done := make(chan struct{})
	go func() { work(); close(done) }()
	for {
		if testenv.AdminMetric(t, admin, "cinch_shadow_mirroring") == 0 {
			on = min(on, time.Since(began))
		}
		most = max(most, testenv.AdminMetric(t, admin, "cinch_shadow_held_bytes"))
		select {
		case <-done:
			return most, on
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// crowd has n clients work at the same time. Each must get an answer to a PING afterwards.
func crowd(t *testing.T, addr string, n int, work func(ctx context.Context, c *goredis.Client, n int)) {
	t.Helper()
	var clients sync.WaitGroup
	for n := range n {
		clients.Go(func() {
			client := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, ReadTimeout: -1, WriteTimeout: -1, MaxRetries: -1})
			defer client.Close()
			work(t.Context(), client, n)
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
}

// once connects, sends one request, reads the answer and disconnects.
func once(addr, request string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 64))
	return err
}

// stop freezes servers until the test ends.
func stop(t *testing.T, servers ...*testenv.RedisServer) {
	t.Helper()
	for _, s := range servers {
		if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) })
	}
}
