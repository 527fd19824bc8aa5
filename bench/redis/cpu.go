package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
)

const (
	cpuConnections = 4
	cpuInterval    = 1200 * time.Millisecond
)

// cost holds the CPU time of one operation, in microseconds.
type cost struct{ gateway, server float64 }

// cpuRow holds the runs of one corpus and storing.
type cpuRow struct {
	corpus   *corpus
	storing  string
	set, get []cost
}

// measureCPU repeats everything o.runs times, all corpora and storings in turn, so that a busy minute of the
// machine affects all alike.
func (o *options) measureCPU(all []corpus) error {
	rows := make([]cpuRow, 0, len(all)*len(storings))
	for i := range all {
		for _, st := range storings {
			rows = append(rows, cpuRow{corpus: &all[i], storing: st.name})
		}
	}
	for n := range o.runs {
		for i := range rows {
			r := &rows[i]
			if err := o.cpuRun(r, storings[i%len(storings)]); err != nil {
				return fmt.Errorf("%s, %s: %w", r.corpus.name, r.storing, err)
			}
			fmt.Printf("run %d %-10s %-12s SET %v GET %v\n", n+1, r.corpus.name, r.storing, r.set[n], r.get[n])
		}
	}
	return o.report("cpu", cpuTable(rows))
}

func (o *options) cpuRun(r *cpuRow, st storing) error {
	dict, err := o.dictionary(r.corpus, st)
	if err != nil {
		return err
	}
	server, err := rig.Redis(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	g, err := o.startGateway(server, st.rule, dict)
	if err != nil {
		return err
	}
	defer g.Stop()
	client := g.Client()
	defer client.Close()
	if err := awaitDictionary(client, server, st); err != nil {
		return err
	}
	values := r.corpus.measured
	set, err := costOf(g, server, func(i int64) error {
		at := int(i) % len(values)
		return client.Set(context.Background(), key(at), values[at], 0).Err()
	})
	if err != nil {
		return err
	}
	get, err := costOf(g, server, func(i int64) error {
		err := client.Get(context.Background(), key(int(i)%len(values))).Err()
		if err == redis.Nil { // the interval had fewer SETs than there are records
			err = nil
		}
		return err
	})
	r.set, r.get = append(r.set, set), append(r.get, get)
	return err
}

// costOf calls op from some goroutines for a while, and divides the CPU time of gateway and server by the
// number of calls.
func costOf(g, server *rig.Process, op func(i int64) error) (c cost, err error) {
	var before, after [2]time.Duration
	if before, err = bothCPU(g, server); err != nil {
		return c, err
	}
	var calls atomic.Int64
	errs := make(chan error, cpuConnections)
	var wg sync.WaitGroup
	end := time.Now().Add(cpuInterval)
	for range cpuConnections {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := op(calls.Add(1) - 1); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return c, err
	default:
	}
	if after, err = bothCPU(g, server); err != nil {
		return c, err
	}
	n := float64(calls.Load())
	return cost{micros(after[0]-before[0]) / n, micros(after[1]-before[1]) / n}, nil
}

func bothCPU(g, server *rig.Process) (c [2]time.Duration, err error) {
	if c[0], err = g.CPU(); err != nil {
		return c, err
	}
	c[1], err = server.CPU()
	return c, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// medians returns separate medians of gateway and server.
func medians(runs []cost) cost {
	var g, s []float64
	for _, r := range runs {
		g, s = append(g, r.gateway), append(s, r.server)
	}
	return cost{rig.Median(g), rig.Median(s)}
}

func cpuTable(rows []cpuRow) string {
	var b rig.Table
	b.Row("corpus", "bytes a value", "storing", "SET: gateway", "SET: redis", "GET: gateway", "GET: redis")
	b.Rule(7)
	for _, r := range rows {
		set, get := medians(r.set), medians(r.get)
		b.Row(r.corpus.name, fmt.Sprint(corpora.TotalBytes(r.corpus.measured)/len(r.corpus.measured)), r.storing,
			oneDigit(set.gateway), oneDigit(set.server), oneDigit(get.gateway), oneDigit(get.server))
	}
	return b.String()
}

func oneDigit(f float64) string { return fmt.Sprintf("%.1f", f) }
