package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

var workFor = flag.Duration("cluster.for", 5*time.Second, "how long the workload runs")

// TestWorkload runs workers in cluster mode through gateways while slots move back and forth and primaries
// are replaced by their replicas. Each worker owns its keys, so it knows the correct reply to every
// command. If a connection ended and a command's outcome is unknown, either outcome is accepted. No
// acknowledged write may be lost, and no read may be wrong.
func TestWorkload(t *testing.T) {
	testenv.Full(t)
	nodes := testenv.Cluster(t, 3, 3)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes[:2]), Race: true, Force: true})
	_ = throughEach(t, gateway, nodes, 2)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{gateway.Addr}, MaxRedirects: 16, MaxRetries: -1, ReadTimeout: 5 * time.Second, DisableIdentity: true,
		NewClient: onlyTo(t, nodes),
	})
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var turn sync.RWMutex // read-locked by workers; locking it pauses them
	work := startWorkers(ctx, t, client, &turn, false)
	c := newClusterState(t, nodes)
	busy, enough := context.WithTimeout(ctx, *workFor)
	c.disturb(busy, turn.Lock, turn.Unlock)
	enough()
	cancel()
	done, unknown := work.wait()
	sealed, guarded := gateway.Metric(t, "cinch_values_sealed_total"), gateway.Metric(t, "cinch_guarded_commands_total")
	t.Logf("%d operations, %d of unknown fate, %d slots moved, %d failovers, %d primaries killed; %.0f values sealed, %.0f guarded commands",
		done, unknown, c.moves, c.failovers, c.kills, sealed, guarded)
	if done < 200 || c.moves == 0 || c.failovers == 0 || c.kills == 0 || sealed == 0 || guarded == 0 {
		t.Error("too little happened")
	}
}

// onlyTo fails the test if a client connects directly to a node.
func onlyTo(t *testing.T, nodes []*testenv.RedisServer) func(*goredis.Options) *goredis.Client {
	direct := map[string]bool{}
	for _, n := range nodes {
		direct[n.Addr] = true
	}
	return func(o *goredis.Options) *goredis.Client {
		if direct[o.Addr] {
			t.Errorf("the client was told the address of the node %s", o.Addr)
		}
		return goredis.NewClient(o)
	}
}

// workers are eight workers that run until the context of startWorkers ends.
type workers struct {
	all           sync.WaitGroup
	done, unknown atomic.Int64
}

// startWorkers starts the workers. With again, connections end while commands are in flight, and the client
// repeats these.
func startWorkers(ctx context.Context, t *testing.T, client *goredis.ClusterClient, turn *sync.RWMutex, again bool) *workers {
	all := &workers{}
	for i := range 8 {
		w := &worker{t: t, client: client, name: fmt.Sprintf("{w%d}", i), random: rand.New(rand.NewPCG(uint64(i), 1)), turn: turn, again: again}
		all.all.Go(func() {
			w.run(ctx)
			all.done.Add(w.done)
			all.unknown.Add(w.unknown)
		})
	}
	return all
}

// wait waits for all workers and returns the number of their operations, and of those with unknown outcome.
func (w *workers) wait() (done, unknown int64) {
	w.all.Wait()
	return w.done.Load(), w.unknown.Load()
}

// worker owns the keys that begin with its name.
type worker struct {
	t             *testing.T
	client        *goredis.ClusterClient
	name          string
	random        *rand.Rand
	turn          *sync.RWMutex // read-locked while a command runs
	again         bool          // a command may have been executed twice, though it was answered once
	text          []string      // possible values of the string
	fields        []string      // possible values of the hash's field
	count         []int         // possible lengths of the list
	done, unknown int64
}

func (w *worker) run(ctx context.Context) {
	w.text, w.fields, w.count = []string{""}, []string{""}, []int{0}
	for ctx.Err() == nil && !w.t.Failed() {
		w.turn.RLock()
		w.step()
		w.turn.RUnlock()
	}
	testenv.Eventually(w.t, "everything can be read", func() bool {
		before := w.unknown
		w.check()
		return w.unknown == before
	})
}

func (w *worker) step() {
	ctx := context.Background()
	w.done++
	k, h, l := w.name+"k", w.name+"h", w.name+"l"
	v := w.value()
	// No answers arrive: read the state before there are more possibilities.
	if max(len(w.text), len(w.fields), len(w.count)) > 50 {
		time.Sleep(20 * time.Millisecond)
		w.check()
		return
	}
	switch w.random.IntN(10) {
	case 0, 1:
		w.text = w.wrote(w.text, func(string) string { return v }, w.client.Set(ctx, k, v, 0).Err())
	case 2:
		w.text = w.wrote(w.text, func(old string) string { return old + "+tail" }, w.client.Append(ctx, k, "+tail").Err())
	case 3:
		const script = `redis.call('APPEND',KEYS[1],ARGV[1]) return redis.call('STRLEN',KEYS[1])`
		w.text = w.wrote(w.text, func(old string) string { return old + "+lua" }, w.client.Eval(ctx, script, []string{k}, "+lua").Err())
	case 4:
		_, err := w.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.Set(ctx, k, v, 0)
			p.Append(ctx, k, "+tx")
			p.HSet(ctx, h, "f", v)
			return nil
		})
		w.text = w.wrote(w.text, func(string) string { return v + "+tx" }, err)
		w.fields = w.wrote(w.fields, func(string) string { return v }, err)
	case 5:
		w.fields = w.wrote(w.fields, func(string) string { return v }, w.client.HSet(ctx, h, "f", v).Err())
	case 6:
		w.counted(w.client.RPush(ctx, l, v).Err())
	case 7:
		_, err := w.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for range 5 {
				p.Set(ctx, k, v, 0)
				p.HSet(ctx, h, "f", v)
			}
			return nil
		})
		w.text = w.wrote(w.text, func(string) string { return v }, err)
		w.fields = w.wrote(w.fields, func(string) string { return v }, err)
	default:
		w.check()
	}
}

func (w *worker) value() string {
	n := 1 + w.random.IntN(60)
	return fmt.Sprintf("%d:", w.random.Uint64()) + strings.Repeat("hello, sealed world; ", n)
}

// wrote returns the possible values after a write that returned err. A write with unknown outcome may have
// happened.
func (w *worker) wrote(may []string, change func(string) string, err error) []string {
	var next []string
	for _, old := range may {
		next = append(next, change(old))
		if w.again {
			next = append(next, change(change(old)))
		}
	}
	if err == nil {
		return next
	}
	w.lost(err)
	return append(next, may...)
}

func (w *worker) counted(err error) {
	next := make([]int, 0, 3*len(w.count))
	for _, n := range w.count {
		next = append(next, n+1)
		if w.again {
			next = append(next, n+2)
		}
	}
	if err != nil {
		w.lost(err)
		next = append(next, w.count...)
	}
	w.count = next
}

// lost counts an error after which the outcome is unknown. Any other error fails the test.
func (w *worker) lost(err error) {
	w.unknown++
	if w.again {
		time.Sleep(100 * time.Millisecond) // commands in flight arrive before the next read
	}
	var network net.Error
	text := err.Error()
	for _, harmless := range []string{"CLUSTERDOWN", "TRYAGAIN", "EOF", "MOVED", "ASK", "EXECABORT", "LOADING", "READONLY", "UNBLOCKED", "connection reset", "refused"} {
		if strings.Contains(text, harmless) {
			return
		}
	}
	if !errors.As(err, &network) {
		w.t.Errorf("%s: %v", w.name, err)
	}
}

// check reads all values and narrows down the possible ones.
func (w *worker) check() {
	ctx := context.Background()
	k, h, l := w.name+"k", w.name+"h", w.name+"l"
	if got, err := w.client.Get(ctx, k).Result(); w.read(err) {
		w.text = w.narrow("string", w.text, got)
		if n, err := w.client.StrLen(ctx, k).Result(); w.read(err) && n != int64(len(got)) {
			w.t.Errorf("%s: STRLEN %d, and the value has %d", w.name, n, len(got))
		}
		if got2, err := w.client.GetRange(ctx, k, 2, 50).Result(); w.read(err) && got2 != got[min(2, len(got)):min(51, len(got))] {
			w.t.Errorf("%s: GETRANGE %q of %.60q", w.name, got2, got)
		}
	}
	if got, err := w.client.HGet(ctx, h, "f").Result(); w.read(err) {
		w.fields = w.narrow("field", w.fields, got)
	}
	if n, err := w.client.LLen(ctx, l).Result(); w.read(err) {
		for _, may := range w.count {
			if int64(may) == n {
				w.count = []int{may}
				return
			}
		}
		w.t.Errorf("%s: the list has %d, not one of %v", w.name, n, w.count)
	}
}

func (w *worker) read(err error) bool {
	if err == nil || errors.Is(err, goredis.Nil) {
		return true
	}
	w.lost(err)
	return false
}

func (w *worker) narrow(what string, may []string, got string) []string {
	for _, m := range may {
		if m == got {
			return []string{got}
		}
	}
	w.t.Errorf("%s: the %s is %.80q (%d bytes), not one of %d that it may be, such as %.80q", w.name, what, got, len(got), len(may), may[0])
	return may
}
