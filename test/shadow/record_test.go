package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const secret = "s3cret-of-somebody"

// cinchRecord runs cinch record, has clients work through it, stops the recording with SIGINT, and returns
// its file.
func cinchRecord(t *testing.T, production *testenv.RedisServer, work func(ctx context.Context, c *goredis.Client, n int), args ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "monday.cinchrec")
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	args = append([]string{"record", "--redis", addr + "=" + production.URL(), "--to", file, "--bound", "1m", "--exit", "--json"}, args...)
	cmd := exec.CommandContext(t.Context(), testenv.Cinch(t), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the recorder listens", func() bool { return testenv.AnswersPing("tcp", addr) })
	var clients sync.WaitGroup
	for n := range 4 {
		clients.Go(func() {
			c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute})
			defer c.Close()
			work(t.Context(), c, n)
		})
	}
	clients.Wait()
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	t.Log(errs.String())
	var recorded struct {
		Bytes, Size, Connections int64
		Ended                    string
	}
	if err := json.Unmarshal(out.Bytes(), &recorded); err != nil || recorded.Bytes == 0 || recorded.Size == 0 || recorded.Connections < 4 || recorded.Ended != "interrupt" {
		t.Errorf("it prints %s: %v", out.String(), err)
	}
	return file
}

// cinchReplay runs cinch replay, and returns its report.
func cinchReplay(t *testing.T, file string, args ...string) *report {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Cinch(t), append([]string{"replay", file, "--json", "--self-test=false", "--margin-p50", "1", "--margin-p99", "1"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run() // any outcome but PASS gives a non-zero exit code
	var r report
	if bad := json.Unmarshal(out.Bytes(), &r); bad != nil {
		t.Fatalf("%v, %v: %s\n%s", err, bad, out.String(), errs.String())
	}
	t.Logf("%+v", r)
	return &r
}

// cartRounds returns how often each of four clients runs the operations of carts.
func cartRounds() int { return codectest.Amount(0, 80, 300) }

// carts writes and reads carts, short sessions, and secret values.
func carts(ctx context.Context, c *goredis.Client, n int) {
	for i := range cartRounds() {
		cart := fmt.Sprintf("cart:%d:%d", n, i%20)
		c.Set(ctx, cart, fmt.Sprintf(`{"cart": %d, "items": [%s]}`, i, strings.Repeat(`{"name": "noodles", "price": 12},`, 20)), 0)
		c.Get(ctx, cart)
		c.HSet(ctx, fmt.Sprintf("user:%d", n), "token", fmt.Sprint(secret, i), "visits", i)
		c.HGetAll(ctx, fmt.Sprintf("user:%d", n))
		session := fmt.Sprintf("session:%d", n)
		c.Incr(ctx, session)
		c.Do(ctx, "PEXPIRE", session, 20, "NX")
	}
}

// The file is encrypted and contains no redacted value. Its replay through Cinch gives the same answers and
// compresses values.
func TestRecordAndReplayThroughCinch(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(key, []byte(identity.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	production, control, test := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
	file := cinchRecord(t, production, carts, "--recipient", identity.Recipient().String(), "--redact", "user:*")
	lacks(t, file, secret, "noodles", "cart:")
	r := cinchReplay(t, file, "--identity", key, "--control", control.URL(), "--test", "cinch="+test.URL(),
		"--rule", "key=cart:*,setting=zstd-3", "--batch", "100ms", "--speed", "max")
	if c := r.Compared; r.Outcome == "VOID" || c.Different > 0 || c.Diverged > c.Equal/20 || c.Equal < 16*cartRounds() {
		t.Errorf("%s %q: %+v", r.Outcome, r.Reasons, r.Compared)
	}
	r.hasBothPhases(t)
	direct := goredis.NewClient(&goredis.Options{Addr: test.Addr})
	defer direct.Close()
	of := goredis.NewClient(&goredis.Options{Addr: control.Addr})
	defer of.Close()
	for n := range 4 {
		cart, user := fmt.Sprintf("cart:%d:19", n), fmt.Sprintf("user:%d", n)
		plain, sealed := of.Get(t.Context(), cart).Val(), direct.Get(t.Context(), cart).Val()
		if !strings.Contains(plain, "noodles") || !envelope.IsSealed([]byte(sealed)) || len(sealed) > len(plain)/2 {
			t.Errorf("%s has %d bytes at the control, %d at the test target", cart, len(plain), len(sealed))
		}
		if all := fmt.Sprint(of.HGetAll(t.Context(), user).Val()); strings.Contains(all, "s3cret") || len(all) < len(secret) {
			t.Errorf("the control has %s: %s", user, all)
		}
	}
}

// Without encryption the file still contains no redacted value, and equal targets give the same answers at
// the recorded pace.
func TestRecordInPlainText(t *testing.T) {
	production, control, test := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
	file := cinchRecord(t, production, carts, "--no-encryption", "--redact", "user:*")
	lacks(t, file, "s3cret")
	r := cinchReplay(t, file, "--control", control.URL(), "--test", test.URL(), "--batch", "100ms")
	if c := r.Compared; r.Outcome == "VOID" || c.Different > 0 || c.Diverged > c.Equal/20 || c.Equal < 16*cartRounds() {
		t.Errorf("%s %q: %+v", r.Outcome, r.Reasons, r.Compared)
	}
}

// lacks fails the test if a file contains one of the texts.
func lacks(t *testing.T, file string, texts ...string) {
	t.Helper()
	all, err := os.ReadFile(file)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d bytes: %v", len(all), err)
	}
	for _, text := range texts {
		if i := bytes.Index(all, []byte(text)); i >= 0 {
			t.Errorf("the file has %q", all[max(i-50, 0):min(i+50, len(all))])
		}
	}
}
