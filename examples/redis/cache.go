package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
)

// cache is one way to run the API. Without a setting there is no gateway.
type cache struct{ name, setting string }

// outcome holds the results of a cache.
type outcome struct {
	cache
	memory int64 // used_memory of Redis with all menus, in bytes
	steps  []step
}

// step is one load, in requests a second.
type step struct {
	rate       float64
	latencies  latencies
	linkBytes  int64         // towards the API, during the step
	gatewayCPU time.Duration // during the step
	took       time.Duration
	failed     int
}

// shares lists the loads, as shares of the rate at which uncompressed menus fill the link.
var shares = []float64{0.25, 0.5, 0.75, 0.9, 1.0, 1.25}

// meanMenu is the average size of a menu in bytes.
const meanMenu = 123_000

func (c cache) run(o options, work string) (out outcome, err error) {
	out.cache = c
	db, err := rig.Redis(work)
	if err != nil {
		return out, err
	}
	defer db.Stop()
	wire, err := link.Start(o.trip, o.mbit, "127.0.0.1:0="+db.Addr)
	if err != nil {
		return out, err
	}
	defer wire.Stop()
	addr := wire.Addrs[0]
	var gateway *rig.Process
	if c.setting != "" {
		far := &rig.Process{Addr: addr}
		if gateway, err = rig.Gateway(o.cinch, work, far, "", fmt.Sprintf("rules: [{name: menus, key: \"menu:*\", setting: %s}]", c.setting)); err != nil {
			return out, err
		}
		defer gateway.Stop()
		addr = gateway.Addr
	}
	api, stop, err := startAPI(addr)
	if err != nil {
		return out, err
	}
	defer stop()
	if err := warm(api, o.menus); err != nil {
		return out, err
	}
	if out.memory, err = usedMemory(db); err != nil {
		return out, err
	}
	for _, share := range shares {
		s, err := c.step(o, api, share*o.mbit*1e6/8/meanMenu, wire, gateway)
		if err != nil {
			return out, err
		}
		fmt.Fprintf(os.Stderr, "%-7s %5.0f requests/s: p50 %7.1f ms, p99 %7.1f ms\n", c.name, s.rate, ms(s.latencies.at(0.5)), ms(s.latencies.at(0.99)))
		out.steps = append(out.steps, s)
	}
	return out, nil
}

func (c cache) step(o options, api string, rate float64, wire *link.Links, gateway *rig.Process) (s step, err error) {
	cpu := func() time.Duration {
		if gateway == nil {
			return 0
		}
		used, _ := gateway.CPU()
		return used
	}
	_, before, err := wire.Bytes()
	if err != nil {
		return s, err
	}
	cpuBefore, began := cpu(), time.Now()
	s.rate = rate
	s.latencies, s.failed = load(api, o.menus, rate, o.step)
	s.took, s.gatewayCPU = time.Since(began), cpu()-cpuBefore
	_, after, err := wire.Bytes()
	s.linkBytes = after - before
	return s, err
}

// startAPI runs this program as the application.
func startAPI(cache string) (addr string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, apiRole, cache)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	if addr, err = firstLine(out); err != nil {
		stop()
		return "", nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return addr, stop, nil
}

// usedMemory returns Redis's used_memory.
func usedMemory(db *rig.Process) (n int64, err error) {
	client := db.Client()
	defer client.Close()
	info, err := client.Info(context.Background(), "memory").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	_, err = fmt.Sscan(rest, &n)
	return n, err
}
