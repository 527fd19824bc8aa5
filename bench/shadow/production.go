package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

const (
	clients = 4
	pause   = 2 * time.Millisecond // of a client between two operations
	length  = 3 * time.Second      // of a run; the mirror tolerates a longer silence of a target
)

// side is a production database, and the work of its clients.
type side struct {
	name  string   // the name of cinch shadow's flag
	load  string   // in words
	flags []string // of the mirror
	start func(work string, durable bool) (*rig.Process, error)
	url   func(addr string) string
	work  func(addr string, client int, until time.Time, took func(time.Duration)) error
}

func sides() []*side { return []*side{redisSide, postgresSide} }

// way is a route of clients to production.
type way struct {
	name    string
	targets string // the state of the mirror's targets; "": no mirror
	runs    []quantiles
	on      int   // runs at whose end the mirror was still on
	peak    int64 // peak memory in bytes
}

type quantiles struct{ p50, p99, most time.Duration }

const direct, plain = "direct", "io.Copy"

func ways() []*way {
	return []*way{
		{name: direct},
		{name: plain},
		{name: "shadow, targets answer", targets: "answer"},
		{name: "shadow, targets frozen", targets: "frozen"},
		{name: "shadow, targets killed", targets: "killed"},
		{name: "shadow, targets slow: 20 ms an answer", targets: "slow"},
		{name: "shadow, targets stutter: frozen for 20 of 25 ms", targets: "stutter"},
		{name: "shadow, targets' disks full", targets: "full"},
	}
}

// production measures all ways to a database, in turn.
func (b *bench) production(s *side, runs int) (string, error) {
	production, err := s.start(b.work, false)
	if err != nil {
		return "", err
	}
	defer production.Stop()
	all := ways()
	for n := range runs {
		for _, w := range all {
			err := b.try(s, w, production)
			if errors.Is(err, rig.ErrNoMount) {
				fmt.Printf("%s, %s: skipped: %v\n", s.name, w.name, err)
				continue
			}
			if err != nil {
				return "", fmt.Errorf("%s: %w", w.name, err)
			}
		}
		fmt.Printf("%s: run %d of %d\n", s.name, n+1, runs)
	}
	return table(s, all, runs, b.nice), nil
}

// try runs a way once. Everything but production is started anew, because a mirror turns itself off when its
// targets are silent for long.
func (b *bench) try(s *side, w *way, production *rig.Process) (err error) {
	on := &stage{bench: b, side: s}
	defer func() { err = errors.Join(err, on.end()) }()
	switch w.name {
	case direct:
		return w.measure(s, production.Addr)
	case plain:
		p, err := on.proxy(production)
		if err != nil {
			return err
		}
		return w.measure(s, p.Addr)
	}
	m, err := on.mirror(production, w.targets)
	if err != nil {
		return err
	}
	if err := w.measure(s, m.Addr); err != nil {
		return err
	}
	return on.judge(w, m)
}

// measure lets clients work for a while.
func (w *way) measure(s *side, addr string) error {
	var mu sync.Mutex
	var all []time.Duration
	failed := make([]error, clients)
	var working sync.WaitGroup
	for n := range clients {
		working.Go(func() {
			var mine []time.Duration
			failed[n] = s.work(addr, n, time.Now().Add(length), func(took time.Duration) {
				mine = append(mine, took)
				time.Sleep(pause)
			})
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	working.Wait()
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("a client failed: %w", err)
	}
	slices.Sort(all)
	w.runs = append(w.runs, quantiles{all[len(all)/2], all[len(all)*99/100], all[len(all)-1]})
	return nil
}

func table(s *side, all []*way, runs, nice int) string {
	var t rig.Table
	fmt.Fprintf(&t, "%d clients with one operation at a time and a pause of %v, %s,\nthe median of %d runs of %v each, all ways in turns. The mirror's targets run on the same cores with nice %d. No client saw an error.\n\n", clients, pause, s.load, runs, length, nice)
	t.Row("", "p50, µs", "p99, µs", "p99 to io.Copy, µs", "ratio", "most, ms", "mirror on at the end, runs", "memory, MiB")
	t.Rule(8)
	yardstick := all[1].median().p99
	for _, w := range all {
		if len(w.runs) == 0 {
			continue
		}
		q, on, memory := w.median(), "", ""
		if w.targets != "" {
			on, memory = fmt.Sprint(w.on), fmt.Sprint(w.peak>>20)
		}
		t.Row(w.name, us(q.p50), us(q.p99), fmt.Sprintf("%+d", (q.p99-yardstick).Microseconds()), fmt.Sprintf("%.2f", float64(q.p99)/float64(yardstick)),
			fmt.Sprintf("%.1f", float64(q.most.Microseconds())/1000), on, memory)
	}
	return strings.TrimLeft(t.String(), "\n")
}

func us(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }

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
