package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/cinch-layer/cinch/test/rig/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool/load"
)

// report holds the results. Sizes are in bytes.
type report struct {
	Setting  string        `json:"setting"`
	Users    int           `json:"users"`
	Load     load.Result   `json:"load"`
	Packed   time.Duration `json:"packer_took_ns"`
	Tuples   int           `json:"tuples"`
	RawBytes int64         `json:"raw_bytes"`   // of documents
	BSize    int64         `json:"bsize"`       // space:bsize()
	Slabs    int64         `json:"items_used"`  // box.slab.info().items_used
	Server   int64         `json:"server_peak"` // peak memory of the processes
	Gateway  int64         `json:"gateway_peak"`
	CPU      time.Duration `json:"gateway_cpu_ns"` // during the load
}

// test runs the load on the cluster while a packer works, and checks the results.
func (c *cluster) test(ctx context.Context) (r report, err error) {
	r.Setting, r.Users = c.o.setting, c.o.users
	if c.dict != "" {
		r.Setting += " with a dictionary of other operators' documents"
	}
	packed := make(chan error, 1)
	go func() {
		began := time.Now()
		_, err := c.cinch(ctx, "pack", "--config", c.config, "--gateway", "master")
		r.Packed = time.Since(began)
		packed <- err
	}()
	before, err := c.gateway.CPU()
	if err != nil {
		return r, err
	}
	c.say("%d users write up to %d documents through the router for %s, and a packer compresses the first %d", c.o.users, c.o.writes, c.o.duration, c.o.before)
	if c.o.k6 != "" {
		r.Load, err = c.runK6(ctx)
	} else {
		r.Load, err = c.load(ctx, c.router, c.o.before, c.o.writes, false)
	}
	if err != nil {
		return r, fmt.Errorf("load: %w\n%s", err, c.gateway.Output())
	}
	if r.CPU, err = c.gateway.CPU(); err != nil {
		return r, err
	}
	r.CPU -= before
	if err := <-packed; err != nil {
		return r, err
	}
	r.Tuples = c.o.before + r.Load.Done
	if err := c.check(ctx, r.Tuples); err != nil {
		return r, err
	}
	return r, c.measure(ctx, &r)
}

func (c *cluster) measure(ctx context.Context, r *report) (err error) {
	for n := range r.Tuples {
		r.RawBytes += int64(len(c.documents(n)))
	}
	if r.BSize, err = tarantool.Eval[int64](ctx, c.master, "return box.space.docs:bsize()"); err != nil {
		return err
	}
	if r.Slabs, err = tarantool.Eval[int64](ctx, c.master, "return box.slab.info().items_used"); err != nil {
		return err
	}
	if r.Server, err = c.master.Peak(); err != nil {
		return err
	}
	r.Gateway, err = c.gateway.Peak()
	return err
}

func (c *cluster) show(r report) error {
	if c.o.json {
		enc := json.NewEncoder(c.out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	mb := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
	c.say("")
	for _, line := range [][2]string{
		{"setting", r.Setting},
		{"virtual users", fmt.Sprint(r.Users)},
		{"writes", fmt.Sprintf("%d of %s in %.1f s", r.Load.Done, mb(r.Load.Bytes), r.Load.Took.Seconds())},
		{"RPS", fmt.Sprintf("%.0f", r.Load.PerSec)},
		{"latency p50, p95, p99, max", ms(r.Load.P50) + ", " + ms(r.Load.P95) + ", " + ms(r.Load.P99) + ", " + ms(r.Load.Max)},
		{"documents, uncompressed", fmt.Sprintf("%d, %s", r.Tuples, mb(r.RawBytes))},
		{"space:bsize()", fmt.Sprintf("%s, %.1f %% saved", mb(r.BSize), 100*(1-float64(r.BSize)/float64(r.RawBytes)))},
		{"slabs in use, with the index", mb(r.Slabs)},
		{"peak memory of master, router", mb(r.Server) + ", " + mb(r.Gateway)},
		{"router's CPU, a write", fmt.Sprintf("%.0f µs", float64(r.CPU.Microseconds())/float64(max(r.Load.Done, 1)))},
		{"the packer took", r.Packed.Round(time.Millisecond).String()},
	} {
		c.say("%-30s %s", line[0], line[1])
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// update continues a CRC-32C without the inversions at its ends.
func update(crc uint32, s string) uint32 { return ^crc32.Update(^crc, castagnoli, []byte(s)) }
