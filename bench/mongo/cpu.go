package main

import (
	"fmt"
	"os"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/proc"
)

// insertsPerFind makes inserts of one document account for a tenth of the plain bytes, and replies of 100
// documents for the rest.
const insertsPerFind = 8

// usage holds CPU time by process.
type usage struct{ driver, near, far, mongod time.Duration }

// cpu measures the CPU time that the mix takes in each process. The link's round trip is short, so that
// waiting costs little CPU.
func (b *bench) cpu() error {
	s, err := b.setUp(200*time.Microsecond, 0, cpuWays)
	if err != nil {
		return err
	}
	defer s.stop()
	rounds, mixes := 4, 150
	if *short {
		rounds, mixes = 1, 15
	}
	used := make([]usage, len(s.routes))
	for range rounds {
		for i, r := range s.routes {
			if err := b.spend(r, mixes, &used[i]); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	return publishCPU(s, used, rounds*mixes)
}

// spend runs the mix and adds its CPU time.
func (b *bench) spend(r *route, mixes int, u *usage) error {
	ops := b.operations(r.client, &r.unread)
	var runs []func() error
	for range mixes {
		runs = append(runs, ops[opFind100].prepare())
		for range insertsPerFind {
			runs = append(runs, ops[opInsert1].prepare())
		}
	}
	before, err := b.usage(r)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := run(); err != nil {
			return err
		}
	}
	after, err := b.usage(r)
	u.driver += after.driver - before.driver
	u.near += after.near - before.near
	u.far += after.far - before.far
	u.mongod += after.mongod - before.mongod
	return err
}

func (b *bench) usage(r *route) (u usage, err error) {
	if u.driver, err = proc.CPU(os.Getpid()); err != nil {
		return u, err
	}
	if u.mongod, err = b.mongod.cpu(); err != nil {
		return u, err
	}
	for i, into := range []*time.Duration{&u.near, &u.far} {
		if i < len(r.gateways) {
			if *into, err = r.gateways[i].cpu(); err != nil {
				return u, err
			}
		}
	}
	return u, nil
}

func publishCPU(s *stage, used []usage, mixes int) error {
	var t rig.Table
	fmt.Fprintf(&t, "CPU for one read of 100 documents and %d inserts of one, in microseconds, and beside plain (published: driver +3 %%, server +2 %%):\n\n", insertsPerFind)
	t.Row("way", "driver", "", "gateway", "far gateway", "mongod", "")
	t.Rule(7)
	var rows [][]string
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(mixes) }
	beside := func(d, plain time.Duration) string {
		return fmt.Sprintf("%+.0f %%", 100*(float64(d)/float64(max(plain, 1))-1))
	}
	var plain usage
	for i, r := range s.routes {
		u := used[i]
		if r.name == plainWay.name {
			plain = u
		}
		t.Row(r.name, thousands(per(u.driver)), beside(u.driver, plain.driver), thousands(per(u.near)), thousands(per(u.far)), thousands(per(u.mongod)), beside(u.mongod, plain.mongod))
		for _, p := range []struct {
			name string
			used time.Duration
		}{{"driver", u.driver}, {"gateway", u.near}, {"far gateway", u.far}, {"mongod", u.mongod}} {
			rows = append(rows, []string{"cpu", r.name, p.name, fmt.Sprintf("%.0f", per(p.used))})
		}
	}
	if err := record("mongo-cpu.csv", "cpu", []string{"part", "way", "process", "us_per_mix"}, rows); err != nil {
		return err
	}
	return publish("cpu", t.String())
}
