package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/rig/proc"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	length = flag.Duration("soak.length", 8*time.Second, "how long the load lasts; one failover happens in ten minutes, and at least one")
	rate   = flag.Float64("soak.rate", 1, "how much of the load, 1 is some 900 operations a second")
)

// failovers returns the number of failovers that fit into the test's length.
func failovers() time.Duration { return max(1, *length/(10*time.Minute)) }

func TestMixedLoad(t *testing.T) {
	testenv.Full(t)
	primary := testenv.Redis(t, "--repl-diskless-sync-delay", "0")
	for range 2 {
		testenv.Redis(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
	}
	var sentinels []string
	for _, s := range testenv.Sentinels(t, 3, "mymaster", primary, 2) {
		sentinels = append(sentinels, s.Addr)
	}
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: "redis+sentinel://" + strings.Join(sentinels, ",") + "/mymaster", Rules: `- {name: all, key: "*", setting: zstd-3}`,
	})
	state, log := &turns{}, &trouble{}
	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	var wg sync.WaitGroup
	workers := start(ctx, t, state, log, gateway.Addr, &wg)
	wg.Go(func() { listen(ctx, t, state, log, gateway.Addr) })
	wg.Go(func() { handOn(ctx, t, state, sentinels[0]) })
	go watchPrimary(ctx, sentinels[0], state, log)
	memory := watch(ctx, gateway)
	wg.Wait()
	report(t, state, workers, <-memory)
	for _, text := range log.unexplained() {
		t.Error(text)
	}
	check(t, state, gateway.Addr, workers)
	if n := gateway.Metric(t, "cinch_values_sealed_total"); n < 100 {
		t.Errorf("%.0f values were sealed", n)
	}
}

func start(ctx context.Context, t *testing.T, state *turns, log *trouble, addr string, wg *sync.WaitGroup) map[string][]*worker {
	workers := map[string][]*worker{}
	for _, d := range all {
		for i := range d.clients {
			c := connect(addr)
			t.Cleanup(func() { c.Close() })
			w := &worker{t: t, turns: state, log: log, c: c, r: rand.New(rand.NewPCG(uint64(i), uint64(len(d.name)))), cells: make([]cell, d.keys)}
			for k := range w.cells {
				w.cells[k].key = fmt.Sprintf("%s:%d:%d", d.name, i, k)
			}
			workers[d.name] = append(workers[d.name], w)
			wg.Go(func() { w.run(ctx, d) })
		}
	}
	return workers
}

// handOn makes the Sentinels fail over to another primary, and waits until the old one is no primary any
// more: until then it acknowledges writes that will be lost.
func handOn(ctx context.Context, t *testing.T, state *turns, sentinel string) {
	s := connect(sentinel)
	defer s.Close()
	for range failovers() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(*length / (failovers() + 2)):
		}
		before, err := s.Do(ctx, "sentinel", "get-master-addr-by-name", "mymaster").StringSlice()
		if err != nil {
			t.Error(err)
			return
		}
		state.begin()
		for err = s.Do(ctx, "sentinel", "failover", "mymaster").Err(); err != nil && ctx.Err() == nil; {
			time.Sleep(100 * time.Millisecond) // the Sentinel may not know the replicas yet
			err = s.Do(ctx, "sentinel", "failover", "mymaster").Err()
		}
		if err != nil {
			t.Errorf("failover: %v", err)
		}
		awaitReplica(ctx, net.JoinHostPort(before[0], before[1]))
		state.end()
	}
}

// awaitReplica waits until a former primary is a replica.
func awaitReplica(ctx context.Context, addr string) {
	c := connect(addr)
	defer c.Close()
	for ctx.Err() == nil {
		if role, err := c.Do(ctx, "role").Slice(); err == nil && role[0] == "slave" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// watchPrimary records each failover, whether the test or the Sentinels started it.
func watchPrimary(ctx context.Context, sentinel string, state *turns, log *trouble) {
	s := connect(sentinel)
	defer s.Close()
	for before := ""; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		now, err := s.Do(ctx, "sentinel", "get-master-addr-by-name", "mymaster").StringSlice()
		if primary := fmt.Sprint(now); err == nil && primary != before {
			if before != "" {
				log.switched()
				state.switched()
			}
			before = primary
		}
	}
}

// watch samples the gateway's memory until the context ends.
func watch(ctx context.Context, g *testenv.GatewayServer) <-chan []float64 {
	samples := make(chan []float64, 1)
	go func() {
		var all []float64
		for ctx.Err() == nil {
			held, _ := proc.Resident(g.Pid())
			all = append(all, float64(held))
			time.Sleep(*length / 200)
		}
		samples <- all
	}()
	return samples
}

func report(t *testing.T, state *turns, workers map[string][]*worker, memory []float64) {
	for _, d := range all {
		done, fails := 0, 0
		for _, w := range workers[d.name] {
			done, fails = done+w.done, fails+w.fails
		}
		t.Logf("%-13s %8d operations, %d failed", d.name, done, fails)
		if done == 0 {
			t.Errorf("%s: nothing was done", d.name)
		}
	}
	quarter := len(memory) / 4
	second, last := mean(memory[quarter:2*quarter]), mean(memory[3*quarter:])
	t.Logf("%d failovers; the gateway's memory: %.0f MB in the second quarter, %.0f MB in the last", state.ours.Load(), second/1e6, last/1e6)
	if last > 1.2*second+48e6 {
		t.Errorf("memory grows: %.0f MB, then %.0f MB", second/1e6, last/1e6)
	}
	if state.ours.Load() < int64(failovers()) {
		t.Errorf("%d failovers came to their end", state.ours.Load())
	}
}

func mean(all []float64) (sum float64) {
	for _, v := range all {
		sum += v / float64(len(all))
	}
	return sum
}

// check reads all keys once more.
func check(t *testing.T, state *turns, addr string, workers map[string][]*worker) {
	c := connect(addr)
	defer c.Close()
	read := 0
	for _, d := range all {
		if d.name == "fields" || d.name == "blocking" {
			continue
		}
		for _, w := range workers[d.name] {
			for i := range w.cells {
				s, err := c.Get(t.Context(), w.cells[i].key).Result()
				if err = unless(err); err != nil {
					t.Fatal(err)
				}
				w.cells[i].read(t, s, state.now(), state)
				read++
			}
		}
	}
	t.Logf("%d keys were read at the end", read)
}
