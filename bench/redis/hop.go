package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/rig"
)

// load is one setting of redis-benchmark. requests is chosen so that a run takes about half a second: with
// many short runs in turn, all ways meet the same conditions.
type load struct{ bytes, depth, requests int }

var loads = []load{
	{16, 1, 25_000},
	{16, 16, 300_000},
	{16 << 10, 1, 15_000},
	{16 << 10, 16, 25_000},
}

const (
	hopConnections = 50
	hopKeys        = 1000
	hopPatience    = time.Minute // redis-benchmark never gives up by itself
	sealedEvery    = 100         // every n-th key holds an envelope, if the way is sealed
)

// way is a route of clients to the server.
type way struct {
	name   string
	start  func(o *options, server *rig.Process) (*rig.Process, error) // nil: direct
	sealed bool                                                        // some stored values are envelopes
}

func rulesOff(o *options, s *rig.Process) (*rig.Process, error) { return o.startGateway(s, "", "") }

func sealingWith(setting string) func(*options, *rig.Process) (*rig.Process, error) {
	return func(o *options, s *rig.Process) (*rig.Process, error) {
		return o.startGateway(s, "{key: '*', setting: "+setting+"}", "")
	}
}

var allWays = []way{
	{name: "direct"},
	{name: "io.Copy", start: (*options).startForward},
	{name: "HAProxy", start: (*options).startHAProxy},
	{name: "nutcracker", start: (*options).startNutcracker},
	{name: "rules off", start: rulesOff},
	{name: "rules off, 1 % sealed", start: rulesOff, sealed: true},
	{name: "zstd-3", start: sealingWith("zstd-3")},
	{name: "lz4", start: sealingWith("lz4")},
	{name: "rules off, shared", start: sharing("enabled: false")},
	{name: "zstd-3, shared", start: sharing("rules: [{key: '*', setting: zstd-3}]")},
	{name: "lz4, shared", start: sharing("rules: [{key: '*', setting: lz4}]")},
}

// sharing is a gateway whose clients share connections to the server.
func sharing(settings string) func(*options, *rig.Process) (*rig.Process, error) {
	return func(o *options, s *rig.Process) (*rig.Process, error) {
		return rig.Gateway(o.cinch, o.work, s, "log: {level: warn}", "upstream_connections: auto\n    "+settings)
	}
}

// beforeWays run the program that --before names.
var beforeWays = []way{
	{name: "rules off, before", start: throughBefore("enabled: false")},
	{name: "zstd-3, before", start: throughBefore("rules: [{key: '*', setting: zstd-3}]")},
}

func throughBefore(settings string) func(*options, *rig.Process) (*rig.Process, error) {
	return func(o *options, s *rig.Process) (*rig.Process, error) {
		return rig.Gateway(o.before, o.work, s, "log: {level: warn}", settings)
	}
}

// rate is the result of one run of SET or GET.
type rate struct{ perSecond, p50, p99, hopCPU float64 } // latencies in ms, CPU in µs per operation

type hopKey struct {
	load load
	way  string
	test string
}

// lane is a running way, with a server of its own.
type lane struct {
	way
	server, hop *rig.Process // hop: nil if direct
}

// measureHop runs all ways in turn, o.runs times.
func (o *options) measureHop() error {
	ways := allWays
	if o.before != "" {
		ways = slices.Concat(ways, beforeWays)
	}
	var lanes []lane
	for _, w := range ways {
		l, err := o.startLane(w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		defer l.stop()
		lanes = append(lanes, l)
	}
	results := map[hopKey][]rate{}
	for n := range o.runs {
		for _, l := range loads {
			for _, test := range []string{"SET", "GET"} {
				for _, w := range lanes {
					if err := w.run(l, test, results); err != nil {
						return fmt.Errorf("%s, %s of %d bytes: %w", w.name, test, l.bytes, err)
					}
				}
			}
		}
		fmt.Printf("hop: run %d of %d\n", n+1, o.runs)
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "redis-hop.csv"), hopRows(results)); err != nil {
		return err
	}
	return o.report("hop", hopTable(results))
}

func (o *options) startLane(w way) (l lane, err error) {
	l.way = w
	if l.server, err = rig.Redis(o.work, "--maxclients", "20000"); err != nil || w.start == nil {
		return l, err
	}
	if l.hop, err = w.start(o, l.server); err != nil {
		l.server.Stop()
	}
	return l, err
}

func (l *lane) stop() {
	if l.hop != nil {
		l.hop.Stop()
	}
	l.server.Stop()
}

func (l *lane) run(k load, test string, results map[hopKey][]rate) error {
	if l.sealed && test == "GET" {
		if err := sealSome(l.server, k.bytes); err != nil {
			return err
		}
	}
	r, err := hopTest(k, hopConnections, test, l.target(), l.hop)
	key := hopKey{k, l.name, test}
	results[key] = append(results[key], r)
	return err
}

// sealSome stores envelopes in place of one of every hundred values. Compressing values of 16 bytes gains
// nothing, so these begin with the envelope's magic: such values are always wrapped.
func sealSome(server *rig.Process, size int) error {
	client := server.Client()
	defer client.Close()
	value := bytes.Repeat([]byte(`{"name": "value", "count": 17} `), size/31+1)[:size]
	copy(value, envelope.Magic)
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})
	sealed := sealer.Seal(nil, value, codec.Setting{Codec: codec.Zstd, Level: 3}, nil)
	for i := 0; i < hopKeys; i += sealedEvery {
		if err := client.Set(context.Background(), fmt.Sprintf("key:%012d", i), sealed, 0).Err(); err != nil {
			return err
		}
	}
	return nil
}

// hopTest runs redis-benchmark with a number of clients against target.
func hopTest(l load, clients int, test string, target, hop *rig.Process) (r rate, err error) {
	host, port, _ := net.SplitHostPort(target.Addr)
	var before, after float64
	if before, err = cpuMicros(hop); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hopPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-t", test, "-d", strconv.Itoa(l.bytes),
		"-P", strconv.Itoa(l.depth), "-c", strconv.Itoa(clients), "-n", strconv.Itoa(l.requests), "-r", strconv.Itoa(hopKeys), "--csv").Output()
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
	// The columns are test, rps, avg, min, p50, p95, p99, max.
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
	b.Row("bytes", "depth", "test", "way", "operations/s", "to direct", "to io.Copy", "p50 ms", "p99 ms", "hop CPU us/op")
	b.Rule(10)
	eachHop(results, func(k hopKey) {
		r, direct, plain := middle(results[k]), middle(results[hopKey{k.load, "direct", k.test}]), middle(results[hopKey{k.load, "io.Copy", k.test}])
		b.Row(strconv.Itoa(k.load.bytes), strconv.Itoa(k.load.depth), k.test, k.way, fmt.Sprintf("%.0f", r.perSecond),
			fmt.Sprintf("%.2f", r.perSecond/direct.perSecond), fmt.Sprintf("%.2f", r.perSecond/plain.perSecond),
			fmt.Sprintf("%.2f", r.p50), fmt.Sprintf("%.2f", r.p99), fmt.Sprintf("%.2f", r.hopCPU))
	})
	return b.String()
}

func hopRows(results map[hopKey][]rate) [][]string {
	rows := [][]string{{"bytes", "depth", "test", "way", "runs", "per_second", "p50_ms", "p99_ms", "hop_cpu_us"}}
	eachHop(results, func(k hopKey) {
		r := middle(results[k])
		rows = append(rows, []string{
			strconv.Itoa(k.load.bytes), strconv.Itoa(k.load.depth), k.test, k.way, strconv.Itoa(len(results[k])),
			fmt.Sprintf("%.0f", r.perSecond), fmt.Sprintf("%.3f", r.p50), fmt.Sprintf("%.3f", r.p99), fmt.Sprintf("%.3f", r.hopCPU),
		})
	})
	return rows
}

// eachHop calls do for each combination that has results.
func eachHop(results map[hopKey][]rate, do func(hopKey)) {
	for _, l := range loads {
		for _, test := range []string{"SET", "GET"} {
			for _, w := range slices.Concat(allWays, beforeWays) {
				if k := (hopKey{l, w.name, test}); len(results[k]) > 0 {
					do(k)
				}
			}
		}
	}
}

// middle returns separate medians of all fields.
func middle(runs []rate) (r rate) {
	var fields [4][]float64
	for _, one := range runs {
		for i, f := range []float64{one.perSecond, one.p50, one.p99, one.hopCPU} {
			fields[i] = append(fields[i], f)
		}
	}
	r.perSecond, r.p50, r.p99, r.hopCPU = rig.Median(fields[0]), rig.Median(fields[1]), rig.Median(fields[2]), rig.Median(fields[3])
	return r
}
