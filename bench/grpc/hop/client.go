//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outcome holds the results that a client prints. Times are in milliseconds.
type outcome struct {
	Calls, Failed, Skipped int
	Seconds                float64
	P50, P95, P99          float64
	Late                   float64 // 99th percentile of how late calls were sent
}

// warmUp is the part of a measurement that does not count.
const warmUp = 300 * time.Millisecond

// rareGC is the GC percentage of client and server: frequent collections would be measured too.
const rareGC = 1600

// inFlight is the number of concurrent calls on a connection that sends as fast as possible.
const inFlight = 12

// calls records the results of a client's run.
type calls struct {
	mu        sync.Mutex
	from      time.Time // earlier calls don't count
	latencies []time.Duration
	late      []time.Duration
	failed    int
	skipped   int
}

func (r *calls) done(sent time.Time, ok bool) {
	took := time.Since(sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !ok:
		r.failed++
	case !sent.Before(r.from):
		r.latencies = append(r.latencies, took)
	}
}

// printCalls runs the client process.
func printCalls(o options) error {
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))) // a sleeping system call holds a P for a while
	debug.SetGCPercent(rareGC)
	r := &calls{latencies: make([]time.Duration, 0, 1<<20), late: make([]time.Duration, 0, 1<<20)}
	r.from = time.Now().Add(time.Hour)
	conns := make([]*conn, o.conns)
	for i := range conns {
		var again *conn
		var stop bool
		c, err := dial(o.addr, text(o.size), func(sent time.Time, ok bool) {
			r.done(sent, ok)
			if o.rate == 0 && ok && !stop {
				stop = !again.call()
			}
		})
		if err != nil {
			return err
		}
		conns[i], again = c, c
	}
	begin := time.Now().Add(warmUp)
	r.mu.Lock()
	r.from = begin
	r.mu.Unlock()
	end := begin.Add(o.each)
	if o.rate > 0 {
		r.pace(conns, o, end)
	} else {
		for i := range inFlight * len(conns) {
			conns[i%len(conns)].call()
		}
		time.Sleep(time.Until(end))
	}
	r.mu.Lock()
	n := len(r.latencies)
	r.mu.Unlock()
	out := outcome{Calls: n, Seconds: time.Since(begin).Seconds()}
	for _, c := range conns {
		if o.rate > 0 {
			c.wait(2 * time.Second)
		} else {
			_ = c.net.Close()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.rate > 0 {
		out.Calls, out.Failed, out.Skipped = len(r.latencies), r.failed, r.skipped
	}
	out.P50, out.P95, out.P99 = quantile(r.latencies, 0.5), quantile(r.latencies, 0.95), quantile(r.latencies, 0.99)
	out.Late = quantile(r.late, 0.99)
	return json.NewEncoder(os.Stdout).Encode(out)
}

// pace sends calls at random times until end. None waits for an earlier one.
func (r *calls) pace(conns []*conn, o options, end time.Time) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // otherwise sleeps last 50 µs longer
	random := rand.New(rand.NewPCG(o.seed, 1))
	at := time.Now()
	for i := 0; ; i++ {
		at = at.Add(time.Duration(random.ExpFloat64() / o.rate * 1e9))
		if at.After(end) {
			return
		}
		if wait := time.Until(at); wait > 0 {
			ts := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&ts, nil)
		}
		late := time.Since(at)
		sent := conns[i%len(conns)].call()
		r.mu.Lock()
		if !sent {
			r.skipped++
		}
		if at.After(r.from) {
			r.late = append(r.late, late)
		}
		r.mu.Unlock()
	}
}

// quantile returns a quantile in milliseconds. It sorts times.
func quantile(times []time.Duration, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[int(float64(len(times)-1)*q)].Nanoseconds()) / 1e6
}

// text returns n bytes that compress like metrics in text format.
func text(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "http_requests_total{pod=\"api-%d\",code=\"%d\"} %d\n", i%17, 200+i%5, i*7919%100003)
	}
	return b[:n]
}
