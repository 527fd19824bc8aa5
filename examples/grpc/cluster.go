package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// variant is one way to compress.
type variant struct {
	name     string
	encoding string // in the programs themselves; "": none
	setting  string // of a pair of gateways; "": no gateways
}

// variants are compared in this order; the first is the baseline.
var variants = []variant{
	{name: "none"},
	{name: "snappy", encoding: "snappy"},
	{name: "S2", encoding: "s2"},
	{name: "zstd", encoding: "zstd"},
	{name: "gzip", encoding: "gzip"},
	{name: "gateways, none", setting: "raw"},
	{name: "gateways, snappy", setting: "snappy"},
	{name: "gateways, S2", setting: "s2"},
	{name: "gateways, zstd", setting: "zstd"},
	{name: "gateways, gzip", setting: "gzip-6"},
}

// zones lists the zones of the receivers. The distributor is in the first.
var zones = []string{"a", "b", "c"}

// cluster is a running set of receivers, with gateways or without, and a hop on each link:
//
//	distributor ------------------------> hop -> receiver
//	distributor -> near gateway --------> hop -> far gateway -> receiver
//
// The near gateway is one process with a listener for each receiver. There is one far gateway process per
// zone.
type cluster struct {
	receivers []*process
	hops      []*hop
	near      *process // nil without gateways
	far       []*process
	targets   []string // addresses that the distributor connects to, one per receiver
}

func (r *runner) startCluster(v variant, delay time.Duration) (c *cluster, err error) {
	c = &cluster{}
	defer func() {
		if err != nil {
			_, stopErr := c.stop()
			err = errors.Join(err, stopErr)
		}
	}()
	for range zones {
		addr, err := r.freeAddr()
		if err != nil {
			return c, err
		}
		p, err := startSelf(r.ctx, "receiver", "-listen", addr, "-encoding", v.encoding, "-delay", delay.String())
		if err != nil {
			return c, err
		}
		c.receivers = append(c.receivers, p)
		if v.setting != "" {
			if addr, err = c.startFar(r, addr); err != nil {
				return c, err
			}
		}
		h, err := startHop(addr)
		if err != nil {
			return c, err
		}
		c.hops = append(c.hops, h)
		c.targets = append(c.targets, h.addr())
	}
	if v.setting != "" {
		if err := c.startNear(r, v.setting); err != nil {
			return c, err
		}
	}
	for _, target := range c.targets {
		if err := waitHealthy(r.ctx, target); err != nil {
			return c, err
		}
	}
	return c, nil
}

// startFar starts the gateway beside a receiver. With its defaults it reads every encoding that gateways
// write, and forwards messages in one that the receiver accepts.
func (c *cluster) startFar(r *runner, upstream string) (addr string, err error) {
	if addr, err = r.freeAddr(); err != nil {
		return "", err
	}
	p, err := startProcess(r.ctx, r.cinch, "serve", "--admin", "off", "--grpc", addr+"=grpc://"+upstream)
	if err == nil {
		c.far = append(c.far, p)
	}
	return addr, err
}

// startNear starts the gateway beside the distributor, which then connects to it instead of the hops.
func (c *cluster) startNear(r *runner, setting string) error {
	var b strings.Builder
	b.WriteString("admin: {listen: off}\nlog: {level: warn}\ngateways:\n")
	for i, zone := range zones {
		addr, err := r.freeAddr()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "  - {name: zone-%s, protocol: grpc, listen: %q, upstream: %q, rules: [{name: all, setting: %s}]}\n",
			zone, addr, "grpc://"+c.targets[i], setting)
		c.targets[i] = addr
	}
	file := filepath.Join(r.work, "near.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	p, err := startProcess(r.ctx, r.cinch, "serve", "--config", file)
	if err == nil {
		c.near = p
	}
	return err
}

// crossZone returns the bytes that have crossed between zones so far: both directions of the links to the
// zones that the distributor is not in.
func (c *cluster) crossZone() (bytes int64) {
	for _, h := range c.hops[1:] {
		bytes += h.bytes.Load()
	}
	return bytes
}

// stop ends all processes and returns the receivers' counts.
func (c *cluster) stop() (all []received, err error) {
	for _, p := range c.gateways() {
		err = errors.Join(err, p.interrupt())
	}
	for _, p := range c.receivers {
		out, stopErr := p.end()
		var got received
		if stopErr == nil {
			stopErr = json.Unmarshal(out, &got)
		}
		err = errors.Join(err, stopErr)
		all = append(all, got)
	}
	for _, h := range c.hops {
		h.close()
	}
	return all, err
}

func (c *cluster) gateways() []*process {
	if c.near == nil {
		return c.far
	}
	return append([]*process{c.near}, c.far...)
}

// usage holds the CPU time of a group of processes, and the peak memory of the largest.
type usage struct {
	CPU    time.Duration `json:"cpu_ns"`
	Memory int64         `json:"memory_bytes"`
}

func usageOf(group []*process) (u usage, err error) {
	for _, p := range group {
		cpu, err := p.cpu()
		if err != nil {
			return u, err
		}
		memory, err := p.peak()
		if err != nil {
			return u, err
		}
		u.CPU += cpu
		u.Memory = max(u.Memory, memory)
	}
	return u, nil
}

// runner starts clusters and distributors.
type runner struct {
	ctx      context.Context
	work     string
	cinch    string
	port     int // next port to try, see freeAddr
	payloads map[payloadKind]payloadFile
}

// outcome holds the results of one run of one variant.
type outcome struct {
	Variant     string `json:"variant"`
	Sent        sent   `json:"sent"`
	CrossZone   int64  `json:"cross_zone_bytes"`
	Distributor usage  `json:"distributor"`
	Gateways    usage  `json:"gateways"`
	Receivers   usage  `json:"receivers"`
}

// run starts a cluster for a variant, runs a distributor with these flags on it, and measures between its
// first and its last push.
func (r *runner) run(v variant, kind payloadKind, delay time.Duration, flags ...string) (o outcome, err error) {
	file, ok := r.payloads[kind]
	if !ok {
		if file, err = makePayloads(r.ctx, r.work, kind); err != nil {
			return o, err
		}
		r.payloads[kind] = file
	}
	c, err := r.startCluster(v, delay)
	if err != nil {
		return o, fmt.Errorf("%s: %w", v.name, err)
	}
	o, err = r.drive(c, v, file, flags)
	all, stopErr := c.stop()
	if err = errors.Join(err, stopErr); err != nil {
		return o, fmt.Errorf("%s: %w", v.name, err)
	}
	return o, o.check(all, delay)
}

func (r *runner) drive(c *cluster, v variant, file payloadFile, flags []string) (o outcome, err error) {
	o.Variant = v.name
	args := []string{"distributor", "-targets", strings.Join(c.targets, ","), "-encoding", v.encoding, "-payloads", file.path}
	d, err := startSelf(r.ctx, append(args, flags...)...)
	if err != nil {
		return o, err
	}
	if line, err := d.out.ReadString('\n'); err != nil || line != "ready\n" {
		_, endErr := d.end()
		return o, fmt.Errorf("the distributor said %q: %w", line, errors.Join(err, endErr))
	}
	gateways, err := usageOf(c.gateways())
	if err != nil {
		return o, err
	}
	receivers, err := usageOf(c.receivers)
	if err != nil {
		return o, err
	}
	before := c.crossZone()
	if _, err := d.in.Write([]byte("go\n")); err != nil {
		return o, err
	}
	result, err := d.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(result, &o.Sent)
	}
	peak, peakErr := d.peak() // the process still waits for the end of its input
	_, endErr := d.end()
	if err = errors.Join(err, peakErr, endErr); err != nil {
		return o, err
	}
	o.Distributor = usage{o.Sent.CPU, peak - file.bytes}
	o.CrossZone = c.crossZone() - before
	if o.Gateways, err = usageOf(c.gateways()); err != nil {
		return o, err
	}
	if o.Receivers, err = usageOf(c.receivers); err != nil {
		return o, err
	}
	o.Gateways.CPU -= gateways.CPU
	o.Receivers.CPU -= receivers.CPU
	return o, nil
}

// check compares the receivers' counts with what was sent: compression must not lose a byte.
func (o outcome) check(all []received, delay time.Duration) error {
	if o.Sent.Failed > 0 || delay > 0 {
		return nil // calls past their deadline may or may not have arrived
	}
	for i, got := range all {
		if warm := got.Requests - o.Sent.Pushes; warm < 0 || got.Bytes < o.Sent.Bytes || got.Series < o.Sent.Series {
			return fmt.Errorf("%s: receiver %s counted %+v of %+v", o.Variant, zones[i], got, o.Sent)
		}
	}
	return nil
}
