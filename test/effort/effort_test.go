// Package effort checks that a real gateway stays within its budgets under a load that needs more.
package effort

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	cores = flag.Float64("budget.cores", 0, "cpu_budget; 0: a third of what sealing takes on this machine, as it is, without one")
	long  = flag.Duration("budget.length", 6*time.Second, "how long the budget is watched")
)

const rules = "- {name: all, key: '*', setting: zstd-3}\n"

// clients write values with short pauses until done is closed, and record the last value of each key.
type clients struct {
	client *goredis.Client
	paused atomic.Bool
	wrote  sync.Map // key: value
	failed atomic.Uint64
	done   chan struct{}
	all    sync.WaitGroup
}

func start(addr string) *clients {
	c := &clients{client: goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute}), done: make(chan struct{})}
	for i := range 4 {
		c.all.Go(func() { c.write(i) })
	}
	return c
}

func (c *clients) write(i int) {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	for n := 0; ; n++ {
		select {
		case <-c.done:
			return
		default:
		}
		rest := 4 * time.Millisecond // the load may be small, since budgets are relative to its need
		if c.paused.Load() {         // a load far below any budget
			rest = 200 * time.Millisecond
		}
		time.Sleep(rest)
		pipe := c.client.Pipeline()
		for j := range 8 {
			key, value := fmt.Sprintf("k:%d:%d", i, (n*8+j)%2000), document(random, 4000)
			c.wrote.Store(key, value)
			pipe.Set(context.Background(), key, value, 0)
			if c.paused.Load() {
				break
			}
		}
		if _, err := pipe.Exec(context.Background()); err != nil {
			c.failed.Add(1)
		}
	}
}

// document returns about n bytes of JSON.
func document(r *rand.Rand, n int) []byte {
	b := []byte("[")
	for len(b) < n {
		b = append(b, `{"id":`...)
		b = strconv.AppendInt(b, r.Int64N(1e6), 10)
		b = append(b, `,"customer":"user-`...)
		b = strconv.AppendInt(b, r.Int64N(5000), 10)
		b = append(b, `","status":"paid","price":`...)
		b = strconv.AppendInt(b, r.Int64N(99999), 10)
		b = append(b, "},"...)
	}
	return append(b[:len(b)-1], ']')
}

// look is a sample of the admin page, with its time.
type look struct {
	at time.Time
	gateway.EffortTotal
	seal float64 // time spent compressing, elapsed
}

func lookAt(t *testing.T, g *testenv.GatewayServer) (l look) {
	t.Helper()
	var status admin.Status
	testenv.AdminJSON(t, g.Admin, "/api/status", &status)
	l.at, l.seal = time.Now(), status.Gateways[0].Total.SealCPUSeconds
	if e := status.Gateways[0].Effort; e != nil {
		l.EffortTotal = *e
	}
	return l
}

// used returns the average number of CPU cores used between two samples.
func used(from, to look) float64 {
	return (to.CPUSeconds - from.CPUSeconds) / to.at.Sub(from.at).Seconds()
}

// below returns how many values between two samples got a weaker setting than their rule's.
func below(from, to look) (n uint64) {
	for i := 1; i < len(to.Steps); i++ {
		n += to.Steps[i].Values - from.Steps[i].Values
	}
	return n
}

// nothing returns the sample of a gateway without values.
func nothing(l look) look {
	return look{EffortTotal: gateway.EffortTotal{Steps: make([]gateway.EffortShare, len(l.Steps))}}
}

func configure(t *testing.T, g *testenv.GatewayServer, budget float64) look {
	t.Helper()
	g.Configure(t, fmt.Sprintf("cpu_budget: %.6f", budget), rules)
	if err := g.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	var now look
	testenv.Eventually(t, "the budget is in force", func() bool {
		now = lookAt(t, g)
		return now.CPUBudgetCores > budget*0.999 && now.CPUBudgetCores < budget*1.001
	})
	return now
}

// A load that needs three times the CPU budget is held to it. Nothing fails, the best affordable settings
// are used, and ten seconds after the load has fallen the rules' settings are used again. All figures are
// CPU time, so a busy machine only changes how much of it there is.
func TestCPUBudget(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no account of their own")
	}
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules, Settings: "cpu_budget: 256"})
	c := start(g.Addr)
	defer c.client.Close()
	before := lookAt(t, g)
	time.Sleep(*long / 3)
	after := lookAt(t, g)
	budget := used(before, after) / 3
	t.Logf("without a bound sealing takes %.3f cores (%.3f on the clock)", 3*budget, (after.seal-before.seal)/after.at.Sub(before.at).Seconds())
	if *cores > 0 {
		budget = *cores
	}
	first := configure(t, g, budget)
	holds(t, g, first, budget)
	c.paused.Store(true)
	backUp(t, g)
	close(c.done)
	c.all.Wait()
	c.check(t)
}

// Compressing exceeds the latency budget for at most one value in a hundred, whatever else runs on the
// machine. Nothing fails, and all values can be read back.
func TestLatencyBudget(t *testing.T) {
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules, Settings: "latency_budget: 20us"})
	c := start(g.Addr)
	defer c.client.Close()
	var l look
	testenv.Eventually(t, "ten thousand values", func() bool {
		l = lookAt(t, g)
		return below(nothing(l), l)+l.Steps[0].Values > 10_000
	})
	close(c.done)
	c.all.Wait()
	var values uint64
	for _, s := range l.Steps {
		values += s.Values
	}
	const saved = 12 + 4 // values that may be late before any is in time, and clients that compress at once
	t.Logf("%d of %d values were late, steps %s", l.Late, values, shares(nothing(l), l))
	if float64(l.Late) > 0.01*float64(values)+saved {
		t.Errorf("%d of %d values were late", l.Late, values)
	}
	c.check(t)
}

// holds checks the budget. It may be exceeded by a tenth, and once by its reserve of one second. If the
// machine leaves the clients too little CPU time to need more than the budget, it waits.
func holds(t *testing.T, g *testenv.GatewayServer, first look, budget float64) {
	t.Helper()
	end := first.at.Add(*long)
	from := first
	testenv.Eventually(t, "a load that needs more than the budget uses it within a tenth", func() bool {
		time.Sleep(*long / 3)
		to := lookAt(t, g)
		spent, most := to.CPUSeconds-first.CPUSeconds, 1.1*budget*to.at.Sub(first.at).Seconds()+budget
		if spent > most {
			t.Fatalf("%.3f s of CPU time were spent in %v, with a budget of %.3f cores", spent, to.at.Sub(first.at), budget)
		}
		u, lower := used(from, to), below(from, to)
		t.Logf("%.4f cores of %.4f (%.0f %%), steps %s, now %q, changed %d times", u, budget, 100*u/budget, shares(from, to), to.Step, to.Changes)
		wasted := u < 0.9*budget && lower > 0
		from = to
		return to.at.After(end) && !wasted && lower > 0
	})
}

func shares(from, to look) (text string) {
	var total uint64
	for i := range to.Steps {
		total += to.Steps[i].Values - from.Steps[i].Values
	}
	for i := range to.Steps {
		text += fmt.Sprintf("%s %.3f ", to.Steps[i].Step, float64(to.Steps[i].Values-from.Steps[i].Values)/float64(max(total, 1)))
	}
	return text
}

func backUp(t *testing.T, g *testenv.GatewayServer) {
	t.Helper()
	fell := time.Now()
	for from := lookAt(t, g); ; {
		time.Sleep(500 * time.Millisecond)
		to := lookAt(t, g)
		if to.Steps[0].Values > from.Steps[0].Values && below(from, to) == 0 {
			t.Logf("all values get what rules say %v after the load fell", from.at.Sub(fell))
			return
		}
		if from.at.Sub(fell) > 10*time.Second {
			t.Fatalf("10 s after the load fell values get %s", shares(from, to))
		}
		from = to
	}
}

// check reads all values back.
func (c *clients) check(t *testing.T) {
	t.Helper()
	if n := c.failed.Load(); n > 0 {
		t.Errorf("%d pipelines failed", n)
	}
	values := 0
	c.wrote.Range(func(key, value any) bool {
		values++
		got, err := c.client.Get(context.Background(), key.(string)).Bytes()
		if err != nil || !bytes.Equal(got, value.([]byte)) {
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
			return false
		}
		return true
	})
	if values == 0 {
		t.Error("nothing was written")
	}
}
