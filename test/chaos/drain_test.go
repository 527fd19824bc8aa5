package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// drained is one client's result of a drain.
type drained struct {
	due      int // requests sent before the signal
	answered int
	err      error
}

func TestDrainAnswersWhatIsDue(t *testing.T) {
	server := testenv.Redis(t)
	for _, depth := range []int{1, 10, 200} {
		t.Run(fmt.Sprintf("pipelines of %d", depth), func(t *testing.T) { drainUnderLoad(t, server, depth) })
	}
}

func drainUnderLoad(t *testing.T, server *testenv.RedisServer, depth int) {
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Force: true})
	idle := mustDial(t, g.Addr)
	idle.must(t, "PING")
	var signalled atomic.Bool
	results, rounds := make([]drained, 8), make([]atomic.Int64, 8)
	var all sync.WaitGroup
	for i := range results {
		c := mustDial(t, g.Addr)
		all.Go(func() { results[i] = load(c, i, depth, &rounds[i], &signalled) })
	}
	for i := range rounds {
		testenv.Eventually(t, "all are answered, and again", func() bool { return rounds[i].Load() > 1 })
	}
	signalled.Store(true) // requests written before this were sent before the signal
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for i, r := range results {
		if r.answered < r.due {
			t.Errorf("client %d: %d of %d replies that were due: %v", i, r.answered, r.due, r.err)
		}
		if errors.Is(r.err, io.ErrUnexpectedEOF) {
			t.Errorf("client %d: cut within a reply: %v", i, r.err)
		}
		if r.answered == 0 {
			t.Errorf("client %d: nothing was answered: %v", i, r.err)
		}
	}
	if reply, err := idle.frame(); err != io.EOF {
		t.Errorf("an idle connection got %q, %v; want its end", reply, err)
	}
	if err := g.Wait(); err != nil {
		t.Errorf("cinch serve: %v", err)
	}
}

// load sends pipelines until the connection ends. After the signal it stops sending, but keeps reading.
func load(c *client, id, depth int, rounds *atomic.Int64, signalled *atomic.Bool) (r drained) {
	value := strings.Repeat(fmt.Sprintf("value of client %d; ", id), 40)
	key := fmt.Sprintf("drain:%d", id)
	for !signalled.Load() {
		var pipeline []byte
		for i := range depth {
			switch i % 4 {
			case 0:
				pipeline = append(pipeline, request("SET", key, value)...)
			case 1:
				pipeline = append(pipeline, request("APPEND", key, "x")...)
			case 2:
				pipeline = append(pipeline, request("GET", key)...)
			case 3:
				pipeline = append(pipeline, request("STRLEN", key)...)
			}
		}
		sent := make(chan error, 1)
		go func() { sent <- c.send(pipeline) }()
		before := r.answered
		for range depth {
			if _, r.err = c.frame(); r.err != nil {
				break
			}
			r.answered++
		}
		if err := <-sent; err == nil && !signalled.Load() {
			r.due = before + depth
		}
		if r.err != nil {
			return r
		}
		rounds.Add(1)
	}
	_, r.err = c.frame()
	return r
}

// A request whose bytes had arrived before the signal is answered, even if the gateway had not read it yet.
func TestDrainReadsWhatHasArrived(t *testing.T) {
	server := testenv.Redis(t)
	for range codectest.Amount(1, 2, 5) {
		g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr})
		clients := make([]*client, 40)
		for i := range clients {
			clients[i] = mustDial(t, g.Addr)
			clients[i].must(t, "PING")
		}
		for _, c := range clients {
			if err := c.send(request("ECHO", "due")); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		lost := 0
		var last error
		for _, c := range clients {
			if reply, err := c.frame(); err != nil || text(reply) != "due" {
				lost, last = lost+1, err
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d requests that had been sent before the signal were not answered: %v", lost, len(clients), last)
		}
		if err := g.Wait(); err != nil {
			t.Errorf("cinch serve: %v", err)
		}
	}
}

// A blocked command or a subscription does not keep a gateway from stopping.
func TestDrainEndsTransactionsAndBlocked(t *testing.T) {
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Args: []string{"--drain-timeout", "2s"}})
	blocked, subscribed := mustDial(t, g.Addr), mustDial(t, g.Addr)
	if err := blocked.send(request("BLPOP", "nothing", "0")); err != nil {
		t.Fatal(err)
	}
	subscribed.must(t, "SUBSCRIBE", "ch")
	open := mustDial(t, g.Addr)
	open.must(t, "MULTI")
	open.must(t, "SET", "k", "v")
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if reply, err := open.do("EXEC"); err != nil || !strings.Contains(reply, "+OK") {
		t.Errorf("a transaction that was open gets %q, %v", reply, err)
	}
	for _, c := range []*client{blocked, subscribed, open} {
		if reply, err := c.frame(); err == nil {
			t.Errorf("got %q, want the end of the connection", reply)
		}
	}
	_ = g.Wait()
}

func TestReloadUnderLoad(t *testing.T) {
	server := testenv.Redis(t)
	listen := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	file := filepath.Join(t.TempDir(), "reload.yaml")
	configure := func(rules string) {
		body := fmt.Sprintf("gateways:\n  - name: reloaded\n    protocol: redis\n    listen: %s\n    upstream: redis://%s\n    rules: %s\n", listen, server.Addr, rules)
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const all = `[{name: all, key: "*", setting: lz4}]`
	configure(all)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Args: []string{"--config", file}})

	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range 6 {
		c := mustDial(t, listen)
		load.Go(func() { readAndWrite(t, c, i, stop) })
	}
	for i := range codectest.Amount(2, 4, 8) {
		rules, want := all, true
		if i%2 == 0 {
			rules, want = `[{name: none, key: "*", setting: raw}]`, false
		}
		configure(rules)
		if err := g.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		awaitSealing(t, listen, server.Addr, want)
	}
	close(stop)
	load.Wait()
}

// readAndWrite fails the test if a reply is missing or differs from the value written.
func readAndWrite(t *testing.T, c *client, id int, stop chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		key, value := fmt.Sprintf("reload:%d", id), strings.Repeat(fmt.Sprintf("%d of %d; ", n, id), 30)
		if reply, err := c.do("SET", key, value); err != nil || reply != "+OK\r\n" {
			t.Errorf("SET: %q, %v", reply, err)
			return
		}
		if reply, err := c.do("GET", key); err != nil || text(reply) != value {
			t.Errorf("GET: %.60q, %v; want %.60q", reply, err, value)
			return
		}
	}
}

// awaitSealing writes until new values are stored compressed, or plain, as want says.
func awaitSealing(t *testing.T, gateway, server string, want bool) {
	t.Helper()
	through, direct := mustDial(t, gateway), mustDial(t, server)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		through.must(t, "SET", "probe", strings.Repeat("probe ", 100))
		if envelope.IsSealed([]byte(text(direct.must(t, "GET", "probe")))) == want {
			return
		}
	}
	t.Fatalf("after the reload values are still not stored as the rules say (sealed: %v)", want)
}
