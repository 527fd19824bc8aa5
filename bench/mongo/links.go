package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// condition describes a link.
type condition struct {
	roundTrip time.Duration
	mbit      float64 // 0: no limit
}

func (c condition) String() string {
	if c.mbit == 0 {
		return fmt.Sprintf("%v, unlimited", c.roundTrip)
	}
	return fmt.Sprintf("%v, %.0f Mbit/s", c.roundTrip, c.mbit)
}

func conditions() (all []condition) {
	if *short {
		return []condition{{200 * time.Microsecond, 0}, {1500 * time.Microsecond, 100}}
	}
	for _, roundTrip := range []time.Duration{200 * time.Microsecond, 1500 * time.Microsecond, 30 * time.Millisecond} {
		for _, mbit := range []float64{0, 450, 100, 50} {
			all = append(all, condition{roundTrip, mbit})
		}
	}
	return all
}

// timesHead holds the columns of mongo-times.csv.
var timesHead = []string{"part", "rtt_us", "mbit", "way", "operation", "clients", "samples", "p50_us", "p99_us", "per_second"}

const (
	cellTime   = 450 * time.Millisecond // for one operation by one way over one link
	minSamples = 16
	turn       = 8 // operations of a way before the next way's turn
)

// links measures the latency of operations. The ways take turns, so that other load on the machine affects
// all of them.
func (b *bench) links() error {
	var times rig.Table
	var rows [][]string
	for _, c := range conditions() {
		s, err := b.setUp(c.roundTrip, c.mbit, timeWays)
		if err != nil {
			return err
		}
		more, err := b.measureLink(&times, s, c)
		s.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		rows = append(rows, more...)
	}
	if err := record("mongo-times.csv", "links", timesHead, rows); err != nil {
		return err
	}
	return publish("links", times.String())
}

func (b *bench) measureLink(t *rig.Table, s *stage, c condition) (rows [][]string, err error) {
	fmt.Fprintf(t, "\n%s, p50 (p99) in microseconds:\n\n", c)
	head := []string{"operation"}
	for _, r := range s.routes {
		head = append(head, r.name)
	}
	t.Row(head...)
	t.Rule(len(head))
	for k, name := range operationNames {
		cells := []string{name}
		samples, err := b.takeTurns(s, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, r := range s.routes {
			p50, p99 := quantiles(samples[i])
			cells = append(cells, fmt.Sprintf("%s (%s)", thousands(p50), thousands(p99)))
			rows = append(rows, []string{"links", fmt.Sprint(c.roundTrip.Microseconds()), fmt.Sprint(c.mbit), r.name, name, "1", fmt.Sprint(len(samples[i])), fmt.Sprintf("%.0f", p50), fmt.Sprintf("%.0f", p99), ""})
		}
		t.Row(cells...)
		fmt.Println(c, cells)
	}
	return rows, nil
}

// takeTurns returns the latencies of an operation, by route.
func (b *bench) takeTurns(s *stage, k int) ([][]time.Duration, error) {
	samples := make([][]time.Duration, len(s.routes))
	ops := make([]operation, len(s.routes))
	for i, r := range s.routes {
		ops[i] = b.operations(r.client, &r.unread)[k]
	}
	budget := cellTime
	if *short {
		budget /= 10
	}
	for i := range ops { // warm up pools, caches and what gateways learn
		if err := ops[i].repeat(turn); err != nil {
			return nil, err
		}
	}
	for began := time.Now(); len(samples[0]) < minSamples || time.Since(began) < budget*time.Duration(len(ops)); {
		for i := range ops {
			for range turn {
				run := ops[i].prepare()
				start := time.Now()
				if err := run(); err != nil {
					return nil, fmt.Errorf("%s: %w", s.routes[i].name, err)
				}
				samples[i] = append(samples[i], time.Since(start))
			}
		}
	}
	return samples, nil
}

// quantiles returns the quantiles in microseconds. It sorts times.
func quantiles(times []time.Duration) (p50, p99 float64) {
	slices.Sort(times)
	at := func(q int) float64 { return float64(times[min(len(times)*q/100, len(times)-1)].Nanoseconds()) / 1000 }
	return at(50), at(99)
}
