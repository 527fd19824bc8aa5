package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
)

// At peak load 64 clients read menus over one link. All ways get the same rate of requests: peakShare of what
// the link can carry uncompressed. Requests come at random times and do not wait for slow replies; latencies
// count from the time when a request was due.
const (
	peakClients = 64
	peakShare   = 0.9
	peakRounds  = 3
	peakTime    = 4 * time.Second // of a way in a round
)

func (o *options) measurePeak(lanes []*menuLane, values [][]byte, mbit float64) error {
	perSecond := peakShare * mbit * 1e6 / 8 * float64(len(values)) / float64(corpora.TotalBytes(values))
	times := make([][]time.Duration, len(lanes))
	late := make([]int, len(lanes))
	for range peakRounds {
		for i, l := range lanes {
			took, missed, err := l.peak(perSecond, len(values))
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			times[i], late[i] = append(times[i], took...), late[i]+missed
		}
	}
	var t rig.Table
	fmt.Fprintf(&t, "%d clients on one link, %.0f GETs a second together.\n\n", peakClients, perSecond)
	t.Row("way", "p50 ms", "p99 ms", "p99 to plain", "GETs measured", "not sent in time")
	t.Rule(6)
	rows := [][]string{{"way", "per_second", "p50_us", "p99_us", "gets", "unsent"}}
	plain := quantile(times[0], 99)
	for i, l := range lanes {
		p50, p99 := quantile(times[i], 50), quantile(times[i], 99)
		t.Row(l.name, millis(p50), millis(p99), fmt.Sprintf("%.2f", float64(p99)/float64(plain)), strconv.Itoa(len(times[i])), strconv.Itoa(late[i]))
		rows = append(rows, []string{l.name, fmt.Sprintf("%.0f", perSecond), strconv.FormatInt(p50.Microseconds(), 10), strconv.FormatInt(p99.Microseconds(), 10), strconv.Itoa(len(times[i])), strconv.Itoa(late[i])})
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "redis-peak.csv"), rows); err != nil {
		return err
	}
	return o.report("peak", t.String())
}

// peak lets all clients read until peakTime is over. unsent is the number of requests that were due and could
// not be sent before the end.
func (l *menuLane) peak(perSecond float64, menus int) (took []time.Duration, unsent int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	end := begin.Add(peakTime)
	for c := range peakClients {
		wg.Go(func() {
			mine, missed, failed := l.peakClient(c, perSecond/peakClients, menus, begin, end)
			mu.Lock()
			defer mu.Unlock()
			took, unsent = append(took, mine...), unsent+missed
			if failed != nil {
				err = failed
			}
		})
	}
	wg.Wait()
	return took, unsent, err
}

func (l *menuLane) peakClient(number int, perSecond float64, menus int, due, end time.Time) (took []time.Duration, unsent int, err error) {
	r := rand.New(rand.NewPCG(uint64(number), 64))
	for {
		due = due.Add(time.Duration(r.ExpFloat64() / perSecond * 1e9))
		i := r.IntN(menus)
		switch {
		case due.After(end):
			return took, unsent, nil
		case time.Now().After(end):
			unsent++
			continue
		}
		time.Sleep(time.Until(due))
		if _, err := l.fetch(i); err != nil {
			return took, unsent, err
		}
		took = append(took, time.Since(due))
	}
}

func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
