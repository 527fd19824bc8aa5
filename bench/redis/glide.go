package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cinch-layer/cinch/bench/rig"
)

// Valkey GLIDE compresses in the client. It is measured beside itself with that off, through a
// gateway: the same values by the same client, so that what differs is the codec and where it runs.

//go:embed glide.py
var glideScript []byte

// glideCorpora are those of the corpora that are measured.
var glideCorpora = []string{"movies", "schemas", "features"}

// glideWay is GLIDE's compression, or a gateway's rule.
type glideWay struct {
	name    string
	mode    string // of GLIDE
	gateway bool
	storing
}

var glideWays = []glideWay{
	{name: "GLIDE, off", mode: "off"},
	{name: "GLIDE, lz4", mode: "lz4"},
	{name: "GLIDE, zstd", mode: "zstd"},
	{name: "gateway, rules off", mode: "off", gateway: true, storing: storings[0]},
	{name: "gateway, lz4", mode: "off", gateway: true, storing: storings[1]},
	{name: "gateway, zstd-3", mode: "off", gateway: true, storing: storings[2]},
	{name: "gateway, zstd-3 and dictionary", mode: "off", gateway: true, storing: storings[3]},
}

// glideRun is what one run cost: microseconds of CPU an operation.
type glideRun struct{ setClient, getClient, setGateway, getGateway float64 }

type glideRow struct {
	corpus *corpus
	way    glideWay
	runs   []glideRun
	memory int64
}

func (o *options) measureGlide(all []corpus) error {
	var rows []*glideRow
	for i := range all {
		if slices.Contains(glideCorpora, all[i].name) {
			for _, w := range glideWays {
				rows = append(rows, &glideRow{corpus: &all[i], way: w})
			}
		}
	}
	script := filepath.Join(o.work, "glide.py")
	if err := os.WriteFile(script, glideScript, 0o600); err != nil {
		return err
	}
	for n := range o.runs {
		for _, r := range rows {
			if err := o.glideRun(script, r); err != nil {
				return fmt.Errorf("%s, %s: %w", r.corpus.name, r.way.name, err)
			}
		}
		fmt.Printf("glide: run %d of %d\n", n+1, o.runs)
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "redis-glide.csv"), glideRows(rows)); err != nil {
		return err
	}
	return o.report("glide", glideTable(rows))
}

func (o *options) glideRun(script string, r *glideRow) error {
	dict, err := o.dictionary(r.corpus, r.way.storing)
	if err != nil {
		return err
	}
	server, err := rig.Redis(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	direct := server.Client()
	defer direct.Close()
	idle, err := infoNumber(direct, "memory", "used_memory")
	if err != nil {
		return err
	}
	target, gateway := server, (*rig.Process)(nil)
	if r.way.gateway {
		if gateway, err = o.startGateway(server, r.way.rule, dict); err != nil {
			return err
		}
		defer gateway.Stop()
		target = gateway
		probe := gateway.Client()
		defer probe.Close()
		if err := awaitDictionary(probe, server, r.way.storing); err != nil {
			return err
		}
	}
	run, err := o.glideClient(script, r, target, gateway)
	if err != nil {
		return err
	}
	r.runs = append(r.runs, run)
	used, err := infoNumber(direct, "memory", "used_memory")
	r.memory = used - idle
	return err
}

// glideOperations is how many SETs, and GETs, a run has: fewer of large values.
func glideOperations(c *corpus) int {
	return min(10_000, max(1500, 40_000_000/(totalBytes(c.measured)/len(c.measured))))
}

// glideClient runs the script, which waits for a line before each step.
func (o *options) glideClient(script string, r *glideRow, target, gateway *rig.Process) (run glideRun, err error) {
	file := filepath.Join(o.work, r.corpus.name+".values")
	if err := writeValues(file, r.corpus.measured); err != nil {
		return run, err
	}
	_, port, _ := net.SplitHostPort(target.Addr)
	n := glideOperations(r.corpus)
	cmd := exec.Command(o.python, script, port, r.way.mode, file, strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return run, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return run, err
	}
	if err := cmd.Start(); err != nil {
		return run, err
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	lines := bufio.NewReader(out)
	if _, err := glideLine(lines); err != nil {
		return run, fmt.Errorf("glide.py says nothing (test/servers install bench): %w", err)
	}
	if run.setClient, run.setGateway, err = glideStep(in, lines, "set", gateway, n); err != nil {
		return run, err
	}
	run.getClient, run.getGateway, err = glideStep(in, lines, "get", gateway, n)
	return run, err
}

func glideStep(in io.Writer, out *bufio.Reader, name string, gateway *rig.Process, n int) (client, hop float64, err error) {
	before, err := cpuMicros(gateway)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Fprintln(in); err != nil {
		return 0, 0, err
	}
	line, err := glideLine(out)
	if err != nil {
		return 0, 0, err
	}
	after, err := cpuMicros(gateway)
	if err != nil {
		return 0, 0, err
	}
	var costs map[string]float64
	err = json.Unmarshal(line, &costs)
	return costs[name], (after - before) / float64(n), err
}

// glideLine reads a line of the script's: GLIDE prints some of its own.
func glideLine(out *bufio.Reader) ([]byte, error) {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil || bytes.HasPrefix(line, []byte(`{"`)) {
			return line, err
		}
	}
}

func writeValues(path string, values [][]byte) error {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return os.WriteFile(path, b, 0o600)
}

// glideMedians are of each number by itself.
func glideMedians(runs []glideRun) glideRun {
	var f [4][]float64
	for _, r := range runs {
		for i, v := range []float64{r.setClient, r.getClient, r.setGateway, r.getGateway} {
			f[i] = append(f[i], v)
		}
	}
	return glideRun{median(f[0]), median(f[1]), median(f[2]), median(f[3])}
}

// glideTable shows the CPU of the codec as what compression adds where it runs.
func glideTable(rows []*glideRow) string {
	var b rig.Table
	b.Row("corpus", "way", "used_memory KB", "to plain", "SET codec us", "GET codec us", "SET client us", "GET client us", "SET gateway us", "GET gateway us")
	b.Rule(10)
	var client, hop glideRun
	var plain int64
	for _, r := range rows {
		m := glideMedians(r.runs)
		set, get := m.setClient-client.setClient, m.getClient-client.getClient
		switch r.way.name {
		case glideWays[0].name:
			client, plain, set, get = m, r.memory, 0, 0
		case glideWays[3].name:
			hop, set, get = m, 0, 0
		default:
			if r.way.gateway {
				set, get = m.setGateway-hop.setGateway, m.getGateway-hop.getGateway
			}
		}
		b.Row(r.corpus.name, r.way.name, strconv.FormatInt(r.memory/1024, 10), fmt.Sprintf("%.2fx", float64(plain)/float64(r.memory)), oneDigit(set), oneDigit(get),
			oneDigit(m.setClient), oneDigit(m.getClient), oneDigit(m.setGateway), oneDigit(m.getGateway))
	}
	return b.String()
}

func glideRows(rows []*glideRow) [][]string {
	out := [][]string{{"corpus", "way", "used_memory_bytes", "set_client_us", "get_client_us", "set_gateway_us", "get_gateway_us"}}
	for _, r := range rows {
		m := glideMedians(r.runs)
		out = append(out, []string{
			r.corpus.name, r.way.name, strconv.FormatInt(r.memory, 10), fmt.Sprintf("%.2f", m.setClient), fmt.Sprintf("%.2f", m.getClient),
			fmt.Sprintf("%.2f", m.setGateway), fmt.Sprintf("%.2f", m.getGateway),
		})
	}
	return out
}

// glidePython is what test/servers install bench has made, or any.
func glidePython() string {
	cache, err := os.UserCacheDir()
	path := filepath.Join(cache, "cinch-test", "bench-python", "bin", "python")
	if _, missing := os.Stat(path); err != nil || missing != nil {
		return "python3"
	}
	return path
}
