package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// crowd is the number of clients that saturates a link. Each reads 100 documents repeatedly.
const crowd = 4

var crowded = condition{1500 * time.Microsecond, 100}

// clients measures several clients on one link. Each round covers all ways.
func (b *bench) clients() error {
	s, err := b.setUp(crowded.roundTrip, crowded.mbit, loadWays)
	if err != nil {
		return err
	}
	defer s.stop()
	rounds, length := 3, 2*time.Second
	if *short {
		rounds, length = 1, 300*time.Millisecond
	}
	samples := make([][]time.Duration, len(s.routes))
	spent := make([]time.Duration, len(s.routes))
	for range rounds {
		for i, r := range s.routes {
			times, took, err := b.load(r, length)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			samples[i], spent[i] = append(samples[i], times...), spent[i]+took
		}
	}
	return publishClients(s, samples, spent)
}

// load runs all clients over a route.
func (b *bench) load(r *route, length time.Duration) (times []time.Duration, took time.Duration, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	op := b.operations(r.client, &r.unread)[opFind100]
	began := time.Now()
	for range crowd {
		all.Go(func() {
			var own []time.Duration
			var failed error
			for time.Since(began) < length && failed == nil {
				run := op.prepare()
				start := time.Now()
				failed = run()
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			if failed != nil {
				err = failed
			}
		})
	}
	all.Wait()
	return times, time.Since(began), err
}

func publishClients(s *stage, samples [][]time.Duration, spent []time.Duration) error {
	var t rig.Table
	fmt.Fprintf(&t, "%d clients, each reading 100 documents at a time, over one link of %s:\n\n", crowd, crowded)
	t.Row("way", "p50, µs", "p99, µs", "p99 beside plain", "operations/s", "beside plain")
	t.Rule(6)
	var rows [][]string
	var plain99, plainRate float64
	for i, r := range s.routes {
		p50, p99 := quantiles(samples[i])
		rate := float64(len(samples[i])) / spent[i].Seconds()
		if r.name == plainWay.name {
			plain99, plainRate = p99, rate
		}
		t.Row(r.name, thousands(p50), thousands(p99), fmt.Sprintf("%.2f", p99/plain99), thousands(rate), fmt.Sprintf("%.2f", rate/plainRate))
		rows = append(rows, []string{
			"clients", fmt.Sprint(crowded.roundTrip.Microseconds()), fmt.Sprint(crowded.mbit), r.name, "find 100", fmt.Sprint(crowd),
			fmt.Sprint(len(samples[i])), fmt.Sprintf("%.0f", p50), fmt.Sprintf("%.0f", p99), fmt.Sprintf("%.0f", rate),
		})
	}
	if err := record("mongo-times.csv", "clients", timesHead, rows); err != nil {
		return err
	}
	return publish("clients", t.String())
}
