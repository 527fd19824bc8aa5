package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"strconv"

	"github.com/cinch-layer/cinch/bench/rig"
)

// load is one setting of redis-benchmark; requests are chosen so that a run takes some
// seconds.
type load struct{ bytes, depth, requests int }

var loads = []load{
	{16, 1, 100_000},
	{16, 16, 600_000},
	{1 << 10, 1, 100_000},
	{1 << 10, 16, 300_000},
	{16 << 10, 1, 60_000},
	{16 << 10, 16, 60_000},
}

const hopConnections = 50

// way is how clients reach the server.
type way struct {
	name  string
	start func(o *options, server *rig.Process) (*rig.Process, error) // nil: directly
}

var ways = []way{
	{"direct", nil},
	{"io.Copy", func(o *options, s *rig.Process) (*rig.Process, error) { return o.startForward(s) }},
	{"rules off", func(o *options, s *rig.Process) (*rig.Process, error) { return o.startGateway(s, "", "") }},
	{"zstd-3", func(o *options, s *rig.Process) (*rig.Process, error) {
		return o.startGateway(s, "{key: '*', setting: zstd-3}", "")
	}},
	{"lz4", func(o *options, s *rig.Process) (*rig.Process, error) {
		return o.startGateway(s, "{key: '*', setting: lz4}", "")
	}},
}

// rate is the outcome of one run of SET or GET.
type rate struct{ perSecond, p50, p99, hopCPU float64 } // milliseconds, microseconds an operation

type hopKey struct {
	load load
	way  string
	test string
}

// measureHop runs all ways in turn, o.runs times.
func (o *options) measureHop() error {
	results := map[hopKey][]rate{}
	for n := range o.runs {
		for _, l := range loads {
			for _, w := range ways {
				if err := o.hopRun(l, w, results); err != nil {
					return fmt.Errorf("%s, %d bytes: %w", w.name, l.bytes, err)
				}
			}
			fmt.Printf("run %d: %d bytes, depth %d\n", n+1, l.bytes, l.depth)
		}
	}
	return o.report("hop", hopTable(results))
}

func (o *options) hopRun(l load, w way, results map[hopKey][]rate) error {
	server, err := rig.Redis(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	target, hop := server, (*rig.Process)(nil)
	if w.start != nil {
		if hop, err = w.start(o, server); err != nil {
			return err
		}
		defer hop.Stop()
		target = hop
	}
	for _, test := range []string{"SET", "GET"} {
		r, err := hopTest(l, test, target, hop)
		if err != nil {
			return err
		}
		k := hopKey{l, w.name, test}
		results[k] = append(results[k], r)
	}
	return nil
}

// hopTest runs redis-benchmark against target.
func hopTest(l load, test string, target, hop *rig.Process) (r rate, err error) {
	host, port, _ := net.SplitHostPort(target.Addr)
	var before, after float64
	if before, err = cpuMicros(hop); err != nil {
		return r, err
	}
	out, err := exec.Command("redis-benchmark", "-h", host, "-p", port, "-t", test, "-d", strconv.Itoa(l.bytes),
		"-P", strconv.Itoa(l.depth), "-c", strconv.Itoa(hopConnections), "-n", strconv.Itoa(l.requests), "--csv").Output()
	if err != nil {
		return r, err
	}
	if after, err = cpuMicros(hop); err != nil {
		return r, err
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 7 || rows[1][0] != test {
		return r, fmt.Errorf("redis-benchmark printed %q: %v", out, err)
	}
	// test, rps, avg, min, p50, p95, p99, max
	for at, field := range map[int]*float64{1: &r.perSecond, 4: &r.p50, 6: &r.p99} {
		if *field, err = strconv.ParseFloat(rows[1][at], 64); err != nil {
			return r, err
		}
	}
	r.hopCPU = (after - before) / float64(l.requests)
	return r, nil
}

func cpuMicros(p *rig.Process) (float64, error) {
	if p == nil {
		return 0, nil
	}
	d, err := p.CPU()
	return micros(d), err
}

func hopTable(results map[hopKey][]rate) string {
	var b rig.Table
	b.Row("bytes", "depth", "test", "way", "operations/s", "to direct", "p50 ms", "p99 ms", "hop CPU us/op")
	b.Rule(9)
	for _, l := range loads {
		for _, test := range []string{"SET", "GET"} {
			direct := middle(results[hopKey{l, "direct", test}])
			for _, w := range ways {
				r := middle(results[hopKey{l, w.name, test}])
				b.Row(strconv.Itoa(l.bytes), strconv.Itoa(l.depth), test, w.name, fmt.Sprintf("%.0f", r.perSecond),
					fmt.Sprintf("%.2f", r.perSecond/direct.perSecond), fmt.Sprintf("%.2f", r.p50), fmt.Sprintf("%.2f", r.p99), oneDigit(r.hopCPU))
			}
		}
	}
	return b.String()
}

// middle is the median of each number by itself.
func middle(runs []rate) rate {
	var fields [4][]float64
	for _, r := range runs {
		for i, f := range []float64{r.perSecond, r.p50, r.p99, r.hopCPU} {
			fields[i] = append(fields[i], f)
		}
	}
	return rate{median(fields[0]), median(fields[1]), median(fields[2]), median(fields[3])}
}
