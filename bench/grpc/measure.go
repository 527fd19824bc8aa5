package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// result is the result of one contender on one payload.
type result struct {
	contender, payload string
	rawBytes           int
	packedBytes        int
	cpu                float64       // relative to S2, compressing and decompressing; the median pair
	spread             [2]float64    // its quartiles
	perMB              time.Duration // CPU of both directions for 1 MB, the median batch
	allocs             float64       // a message, both directions
	allocBytes         float64
}

func measureAll(ctx context.Context, o options, payloads []payload) error {
	all, err := contenders()
	if err != nil {
		return err
	}
	if all, err = matching(all, o.only); err != nil {
		return err
	}
	var r report
	for _, p := range payloads {
		for _, c := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			result, err := measure(c, all[0], p, o)
			if err != nil {
				return err
			}
			r.results = append(r.results, result)
			fmt.Fprintf(os.Stderr, "%-8s %-28s ratio %6.2f  CPU %5.2f [%.2f %.2f] %9v/MB  %6.1f allocs %8.0f B\n", p.name, c.name,
				float64(result.rawBytes)/float64(result.packedBytes), result.cpu, result.spread[0], result.spread[1], result.perMB, result.allocs, result.allocBytes)
		}
	}
	if o.heap {
		if r.peaks, err = measurePeaks(ctx, all); err != nil {
			return err
		}
	}
	r.payloads = payloads
	if o.only != "" {
		o.results = ""
	}
	return r.write(o.results)
}

func measure(c, base contender, p payload, o options) (result, error) {
	r := result{contender: c.name, payload: p.name, rawBytes: p.bytes()}
	var err error
	if r.packedBytes, r.allocs, r.allocBytes, err = once(c, p); err != nil {
		return r, err
	}
	rounds, err := roundsFor(base, p, o.pair)
	if err != nil {
		return r, err
	}
	var ratios, perMB []float64
	for range o.pairs {
		theirs, err := batch(base, p, rounds)
		if err != nil {
			return r, err
		}
		ours, err := batch(c, p, rounds)
		if err != nil {
			return r, err
		}
		ratios = append(ratios, ours.Seconds()/theirs.Seconds())
		perMB = append(perMB, ours.Seconds()/float64(rounds*r.rawBytes)*1e6)
	}
	slices.Sort(ratios)
	slices.Sort(perMB)
	n := len(ratios)
	r.cpu, r.spread = ratios[n/2], [2]float64{ratios[n/4], ratios[n*3/4]}
	r.perMB = time.Duration(perMB[n/2] * float64(time.Second)).Round(time.Microsecond)
	return r, nil
}

// once warms up, and then counts bytes and allocations.
func once(c contender, p payload) (packedBytes int, allocs, allocBytes float64, err error) {
	var s scratch
	var before, after runtime.MemStats
	for round := range 3 {
		if round == 1 {
			runtime.ReadMemStats(&before)
		}
		packedBytes = 0
		for _, m := range p.messages {
			n, err := c.trip(m, &s)
			if err != nil {
				return 0, 0, 0, err
			}
			packedBytes += n
		}
	}
	runtime.ReadMemStats(&after)
	n := float64(2 * len(p.messages))
	return packedBytes, float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n, nil
}

// roundsFor returns how often the payload fits into a batch of the wanted CPU time, at least 1.
func roundsFor(c contender, p payload, want time.Duration) (int, error) {
	took, err := batch(c, p, 1)
	return max(1, int(want/max(took, time.Millisecond))), err
}

// now returns the CPU time that batches are measured in: that of the process, garbage collection included, or
// that of a thread.
var now = cpuTime

// batch returns the CPU time of the given number of rounds.
func batch(c contender, p payload, rounds int) (time.Duration, error) {
	runtime.GC()
	var s scratch
	start := now()
	for range rounds {
		for _, m := range p.messages {
			if _, err := c.trip(m, &s); err != nil {
				return 0, err
			}
		}
	}
	return now() - start, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
