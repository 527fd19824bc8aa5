// Command shadow measures what production feels of cinch shadow: latencies of Redis' GET and SET of 200
// bytes directly, through the plainest proxy (bench/forward), and through the mirror while its targets
// answer, are frozen, are gone, or are slow. It writes bench/results/shadow.md.
//
//	go run ./bench/shadow [--runs N] [--results DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/bench/rig"
)

const (
	clients = 4
	pause   = 2 * time.Millisecond // of a client between two operations
	length  = 3 * time.Second      // of a run
	bytes   = 200
)

// way is how clients reach production.
type way struct {
	name    string
	addr    string
	targets string // what happens to the mirror's targets; "": there is none
	control *rig.Process
	test    *rig.Process
	runs    []quantiles
}

type quantiles struct{ p50, p99, most time.Duration }

type bench struct {
	work, cinch, forward string
	production           *rig.Process
	ways                 []*way
	stop                 []func()
}

func main() {
	runs := flag.Int("runs", 5, "repetitions of each way, in turns; the median counts")
	results := flag.String("results", "bench/results", "where results are written")
	flag.Parse()
	if err := run(*runs, *results); err != nil {
		fmt.Fprintln(os.Stderr, "bench/shadow:", err)
		os.Exit(1)
	}
}

func run(runs int, results string) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	for n := range runs {
		for _, w := range b.ways {
			q, err := w.measure()
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.runs = append(w.runs, q)
		}
		fmt.Printf("run %d of %d\n", n+1, runs)
	}
	return os.WriteFile(filepath.Join(results, "shadow.md"), []byte(b.table(runs)), 0o666)
}

func newBench() (b *bench, err error) {
	b = &bench{}
	if b.work, err = os.MkdirTemp("", "cinch-bench-"); err != nil {
		return b, err
	}
	b.cinch, b.forward = filepath.Join(b.work, "cinch"), filepath.Join(b.work, "forward")
	if err := rig.Build(b.cinch, "./cmd/cinch"); err != nil {
		return b, err
	}
	if err := rig.Build(b.forward, "./bench/forward"); err != nil {
		return b, err
	}
	if b.production, err = b.redis(); err != nil {
		return b, err
	}
	b.ways = append(b.ways, &way{name: "direct", addr: b.production.Addr})
	addr, err := rig.FreeAddr()
	if err != nil {
		return b, err
	}
	plain, err := rig.StartListener("forward", addr, b.work, b.forward, addr, b.production.Addr)
	if err != nil {
		return b, err
	}
	b.stop = append(b.stop, plain.Stop)
	b.ways = append(b.ways, &way{name: "io.Copy", addr: addr})
	for _, what := range []string{"answer", "frozen", "gone", "slow"} {
		if err := b.mirror(what); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (b *bench) redis() (*rig.Process, error) {
	p, err := rig.Redis(b.work)
	if err == nil {
		b.stop = append(b.stop, p.Stop)
	}
	return p, err
}

// mirror adds a mirror with targets of its own.
func (b *bench) mirror(targets string) error {
	w := &way{name: "shadow, targets " + targets, targets: targets}
	var err error
	if w.control, err = b.redis(); err != nil {
		return err
	}
	if w.test, err = b.redis(); err != nil {
		return err
	}
	if w.addr, err = rig.FreeAddr(); err != nil {
		return err
	}
	p, err := rig.StartListener("shadow", w.addr, b.work, b.cinch, "shadow", "--redis", w.addr+"=redis://"+b.production.Addr,
		"--control", "redis://"+w.control.Addr, "--test", "redis://"+w.test.Addr, "--batch", "10s", "--self-test=false")
	if err != nil {
		return err
	}
	b.stop = append(b.stop, p.Stop)
	b.ways = append(b.ways, w)
	for range 600 { // it listens before its self-test
		if strings.Contains(p.Output(), "clients may connect") {
			return w.trouble()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("shadow does not begin: %s", p.Output())
}

// trouble does to the targets what the way is about.
func (w *way) trouble() error {
	for _, t := range []*rig.Process{w.control, w.test} {
		switch w.targets {
		case "frozen":
			if err := t.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
		case "gone":
			t.Stop()
		case "slow":
			go delay(t.Addr)
		}
	}
	return nil
}

// delay keeps a server busy for 20 of every 25 ms.
func delay(addr string) {
	c := goredis.NewClient(&goredis.Options{Addr: addr, ReadTimeout: time.Minute})
	defer c.Close()
	for c.Do(context.Background(), "DEBUG", "SLEEP", "0.02").Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

// measure has clients work for a while.
func (w *way) measure() (quantiles, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var working sync.WaitGroup
	for n := range clients {
		working.Go(func() {
			took, err := work(w.addr, n)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				failed = err
			}
		})
	}
	working.Wait()
	if failed != nil {
		return quantiles{}, failed
	}
	slices.Sort(all)
	return quantiles{all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}, nil
}

func work(addr string, n int) (took []time.Duration, err error) {
	ctx := context.Background()
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1})
	defer c.Close()
	value := strings.Repeat("v", bytes)
	for end := time.Now().Add(length); time.Now().Before(end); {
		key := fmt.Sprintf("k:%d:%d", n, len(took)%100)
		began := time.Now()
		if len(took)%2 == 0 {
			err = c.Set(ctx, key, value, 0).Err()
		} else if err = c.Get(ctx, key).Err(); err == goredis.Nil {
			err = nil
		}
		if err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
		time.Sleep(pause)
	}
	return took, nil
}

func (b *bench) table(runs int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# What production feels of `cinch shadow`\n\n`go run ./bench/shadow --runs %d`: %d clients with one operation at a time and a pause of %v, GET and SET of %d bytes in turns,\nthe median of %d runs of %v each, all ways in turns.\n\n", runs, clients, pause, bytes, runs, length)
	out.WriteString("| | p50, µs | p99, µs | p99 to io.Copy, µs | ratio | most, ms |\n|---|---|---|---|---|---|\n")
	plain := b.ways[1].median().p99
	for _, w := range b.ways {
		q := w.median()
		fmt.Fprintf(&out, "| %s | %d | %d | %+d | %.2f | %.1f |\n", w.name, q.p50.Microseconds(), q.p99.Microseconds(), (q.p99 - plain).Microseconds(), float64(q.p99)/float64(plain), float64(q.most.Microseconds())/1000)
	}
	return out.String()
}

func (w *way) median() quantiles {
	at := func(of func(quantiles) time.Duration) time.Duration {
		var all []time.Duration
		for _, q := range w.runs {
			all = append(all, of(q))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return quantiles{
		at(func(q quantiles) time.Duration { return q.p50 }), at(func(q quantiles) time.Duration { return q.p99 }),
		at(func(q quantiles) time.Duration { return q.most }),
	}
}

func (b *bench) close() {
	for _, stop := range slices.Backward(b.stop) {
		stop()
	}
	_ = os.RemoveAll(b.work)
}
