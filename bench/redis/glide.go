package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
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

// glideRounds is how often each way has its turn in one of o.runs, and glideOperations how many SETs,
// and GETs, a turn has. Many short turns meet the same machine: a turn is compared with that of
// the way without compression in the same round.
const (
	glideRounds     = 10
	glideOperations = 500
)

// glideTurn is what one turn cost: microseconds of CPU an operation.
type glideTurn struct{ set, get glideCost }

type glideCost struct{ client, gateway float64 }

type glideRow struct {
	corpus *corpus
	way    glideWay
	turns  []glideTurn
	memory int64
}

// glideLane is a way at work.
type glideLane struct {
	row             *glideRow
	server, gateway *rig.Process // gateway nil: none
	idle            int64        // bytes that the empty server used
	cmd             *exec.Cmd
	in              io.WriteCloser
	out             *bufio.Reader
}

func (o *options) measureGlide(all []corpus) error {
	var rows []*glideRow
	for i := range all {
		if !slices.Contains(glideCorpora, all[i].name) {
			continue
		}
		of, err := o.glideCorpus(&all[i])
		if err != nil {
			return fmt.Errorf("%s: %w", all[i].name, err)
		}
		rows = append(rows, of...)
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "redis-glide.csv"), glideRows(rows)); err != nil {
		return err
	}
	return o.report("glide", glideTable(rows))
}

// glideCorpus measures all ways with one corpus.
func (o *options) glideCorpus(c *corpus) (rows []*glideRow, err error) {
	var lanes []*glideLane
	defer func() {
		for _, l := range lanes {
			l.stop()
		}
	}()
	for _, w := range glideWays {
		row := &glideRow{corpus: c, way: w}
		rows = append(rows, row)
		l := &glideLane{row: row}
		lanes = append(lanes, l)
		if err := o.startGlide(l); err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for n := range o.runs * glideRounds {
		for i := range lanes {
			l := lanes[(i+n)%len(lanes)]
			if err := l.turn(); err != nil {
				return nil, fmt.Errorf("%s: %w", l.row.way.name, err)
			}
		}
		if (n+1)%glideRounds == 0 {
			fmt.Printf("glide: %s, run %d of %d\n", c.name, (n+1)/glideRounds, o.runs)
		}
	}
	for _, l := range lanes {
		if err := l.weigh(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// startGlide starts what a way needs. What it has started l.stop ends, on an error too.
func (o *options) startGlide(l *glideLane) (err error) {
	w := &l.row.way
	dict, err := o.dictionary(l.row.corpus, w.storing)
	if err != nil {
		return err
	}
	if l.server, err = rig.Redis(o.work); err != nil {
		return err
	}
	direct := l.server.Client()
	defer direct.Close()
	if l.idle, err = infoNumber(direct, "memory", "used_memory"); err != nil {
		return err
	}
	target := l.server
	if w.gateway {
		if l.gateway, err = o.startGateway(l.server, w.rule, dict); err != nil {
			return err
		}
		target = l.gateway
		probe := l.gateway.Client()
		defer probe.Close()
		if err := awaitDictionary(probe, l.server, w.storing); err != nil {
			return err
		}
	}
	return o.startGlideClient(l, target)
}

// startGlideClient runs the script, which waits for a line before each step.
func (o *options) startGlideClient(l *glideLane, target *rig.Process) (err error) {
	script, file := filepath.Join(o.work, "glide.py"), filepath.Join(o.work, l.row.corpus.name+".values")
	if err := os.WriteFile(script, glideScript, 0o600); err != nil {
		return err
	}
	if err := writeValues(file, l.row.corpus.measured); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(target.Addr)
	cmd := exec.Command(o.python, script, port, l.row.way.mode, file)
	cmd.Stderr = os.Stderr
	if l.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.cmd, l.out = cmd, bufio.NewReader(out)
	if _, err := glideLine(l.out); err != nil {
		return fmt.Errorf("glide.py says nothing (pip install valkey-glide-sync==2.6.0, --python): %w", err)
	}
	return nil
}

func (l *glideLane) stop() {
	l.stopClient()
	if l.gateway != nil {
		l.gateway.Stop()
	}
	if l.server != nil {
		l.server.Stop()
	}
}

func (l *glideLane) stopClient() {
	if l.cmd != nil {
		_ = l.in.Close()
		_ = l.cmd.Wait()
		l.cmd = nil
	}
}

// turn has the client do some SETs, then GETs.
func (l *glideLane) turn() error {
	set, err := l.step("set")
	if err != nil {
		return err
	}
	get, err := l.step("get")
	l.row.turns = append(l.row.turns, glideTurn{set, get})
	return err
}

func (l *glideLane) step(name string) (c glideCost, err error) {
	before, err := cpuMicros(l.gateway)
	if err != nil {
		return c, err
	}
	if _, err := fmt.Fprintln(l.in, name, glideOperations); err != nil {
		return c, err
	}
	line, err := glideLine(l.out)
	if err != nil {
		return c, err
	}
	after, err := cpuMicros(l.gateway)
	if err != nil {
		return c, err
	}
	var said struct{ Us float64 }
	err = json.Unmarshal(line, &said)
	return glideCost{said.Us, (after - before) / glideOperations}, err
}

// weigh asks the server what all values take. The client's connection does not count.
func (l *glideLane) weigh() error {
	l.stopClient()
	direct := l.server.Client()
	defer direct.Close()
	used, err := infoNumber(direct, "memory", "used_memory")
	l.row.memory = used - l.idle
	return err
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

// estimate is a median and the interval in which it lies with a probability of 95 %.
type estimate struct{ low, median, high float64 }

// estimateOf takes the interval from the order of the values, whatever their distribution.
func estimateOf(values []float64) estimate {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	off := int(math.Ceil(0.98 * math.Sqrt(float64(n)))) // 1.96 standard deviations of a binomial of n halves
	return estimate{sorted[max(0, n/2-off)], median(values), sorted[min(n-1, (n-1)/2+off)]}
}

func (e estimate) String() string {
	return fmt.Sprintf("%.1f (%.1f to %.1f)", e.median, e.low, e.high)
}

// of are the turns' costs as get sees them.
func (r *glideRow) of(get func(t *glideTurn) float64) []float64 {
	out := make([]float64, len(r.turns))
	for i := range r.turns {
		out[i] = get(&r.turns[i])
	}
	return out
}

// beyond is what each turn cost more than that of base in the same round.
func (r *glideRow) beyond(base *glideRow, get func(t *glideTurn) float64) estimate {
	ours, theirs := r.of(get), base.of(get)
	for i := range ours {
		ours[i] -= theirs[i]
	}
	return estimateOf(ours)
}

var (
	setClient  = func(t *glideTurn) float64 { return t.set.client }
	getClient  = func(t *glideTurn) float64 { return t.get.client }
	setGateway = func(t *glideTurn) float64 { return t.set.gateway }
	getGateway = func(t *glideTurn) float64 { return t.get.gateway }
)

// codec is what compression adds where it runs: in the client, or in the gateway. rows are those
// of r's corpus, in the order of glideWays.
func (r *glideRow) codec(rows []*glideRow) (set, get estimate) {
	if r.way.gateway {
		return r.beyond(rows[3], setGateway), r.beyond(rows[3], getGateway)
	}
	return r.beyond(rows[0], setClient), r.beyond(rows[0], getClient)
}

func glideTable(rows []*glideRow) string {
	var b rig.Table
	b.Row("corpus", "way", "used_memory KB", "to plain", "SET codec us", "GET codec us", "SET client us", "GET client us", "SET gateway us", "GET gateway us")
	b.Rule(10)
	for i, r := range rows {
		same := rows[i-i%len(glideWays):][:len(glideWays)]
		set, get := r.codec(same)
		b.Row(r.corpus.name, r.way.name, strconv.FormatInt(r.memory/1024, 10), fmt.Sprintf("%.2fx", float64(same[0].memory)/float64(r.memory)), set.String(), get.String(),
			oneDigit(median(r.of(setClient))), oneDigit(median(r.of(getClient))), oneDigit(median(r.of(setGateway))), oneDigit(median(r.of(getGateway))))
	}
	return b.String()
}

func glideRows(rows []*glideRow) [][]string {
	out := [][]string{{
		"corpus", "way", "turns", "used_memory_bytes", "set_codec_us", "set_codec_low", "set_codec_high", "get_codec_us", "get_codec_low", "get_codec_high",
		"set_client_us", "get_client_us", "set_gateway_us", "get_gateway_us",
	}}
	for i, r := range rows {
		set, get := r.codec(rows[i-i%len(glideWays):][:len(glideWays)])
		row := []string{r.corpus.name, r.way.name, strconv.Itoa(len(r.turns)), strconv.FormatInt(r.memory, 10)}
		for _, v := range []float64{
			set.median, set.low, set.high, get.median, get.low, get.high,
			median(r.of(setClient)), median(r.of(getClient)), median(r.of(setGateway)), median(r.of(getGateway)),
		} {
			row = append(row, fmt.Sprintf("%.2f", v))
		}
		out = append(out, row)
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
