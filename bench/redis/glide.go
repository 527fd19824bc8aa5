package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/client"
)

// Valkey GLIDE compresses in the client. The baseline is GLIDE without compression, through a gateway: the
// same client writes the same values, so only the codec and its place differ.

// glideCorpora lists the measured corpora.
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

// glideRounds is the number of turns of each way per run, and glideOperations the number of SETs, and of
// GETs, per turn. Turns are short and many, so that all ways meet the same conditions: each turn is compared
// with the turn of the way without compression in the same round.
const (
	glideRounds     = 10
	glideOperations = 500
)

// glideTurn holds the cost of one turn, in microseconds of CPU time per operation.
type glideTurn struct{ set, get glideCost }

type glideCost struct{ client, gateway float64 }

type glideRow struct {
	corpus *corpus
	way    glideWay
	turns  []glideTurn
	memory int64
}

// glideLane is a running way.
type glideLane struct {
	row             *glideRow
	server, gateway *rig.Process // gateway: nil if there is none
	idle            int64        // used_memory of the empty server
	client          *client.Process
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

// startGlide starts the processes of a way. l.stop ends them, also after an error.
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
	if l.idle, err = rig.InfoNumber(direct, "memory", "used_memory"); err != nil {
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

// startGlideClient starts GLIDE, which then waits for steps.
func (o *options) startGlideClient(l *glideLane, target *rig.Process) error {
	file := filepath.Join(o.work, l.row.corpus.name+".values")
	if err := client.WriteValues(file, l.row.corpus.measured); err != nil {
		return err
	}
	command, err := client.Python(o.python, o.work)
	if err != nil {
		return err
	}
	if l.client, err = client.Start(append(command, target.Port(), "glide-"+l.row.way.mode, file)...); err != nil {
		return fmt.Errorf("%w: scripts/servers install bench, or --python", err)
	}
	return nil
}

func (l *glideLane) stop() {
	l.client.Stop()
	if l.gateway != nil {
		l.gateway.Stop()
	}
	if l.server != nil {
		l.server.Stop()
	}
}

// turn has the client do SETs and then GETs.
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
	var said struct{ Us float64 }
	if err := l.client.Ask(&said, name, glideOperations); err != nil {
		return c, err
	}
	after, err := cpuMicros(l.gateway)
	if err != nil {
		return c, err
	}
	return glideCost{said.Us, (after - before) / glideOperations}, nil
}

// weigh measures the server's memory for all values, without that for the client's connection.
func (l *glideLane) weigh() error {
	l.client.Stop()
	direct := l.server.Client()
	defer direct.Close()
	used, err := rig.InfoNumber(direct, "memory", "used_memory")
	l.row.memory = used - l.idle
	return err
}

// of returns one figure of each turn.
func (r *glideRow) of(get func(t *glideTurn) float64) []float64 {
	out := make([]float64, len(r.turns))
	for i := range r.turns {
		out[i] = get(&r.turns[i])
	}
	return out
}

// beyond estimates by how much the turns' costs exceed base's in the same rounds.
func (r *glideRow) beyond(base *glideRow, get func(t *glideTurn) float64) rig.Estimate {
	ours, theirs := r.of(get), base.of(get)
	for i := range ours {
		ours[i] -= theirs[i]
	}
	return rig.EstimateOf(ours)
}

var (
	setClient  = func(t *glideTurn) float64 { return t.set.client }
	getClient  = func(t *glideTurn) float64 { return t.get.client }
	setGateway = func(t *glideTurn) float64 { return t.set.gateway }
	getGateway = func(t *glideTurn) float64 { return t.get.gateway }
)

// codec returns the CPU time that compression adds in the client or in the gateway. rows are those of r's
// corpus, in the order of glideWays.
func (r *glideRow) codec(rows []*glideRow) (set, get rig.Estimate) {
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
			oneDigit(rig.Median(r.of(setClient))), oneDigit(rig.Median(r.of(getClient))), oneDigit(rig.Median(r.of(setGateway))), oneDigit(rig.Median(r.of(getGateway))))
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
			set.Median, set.Low, set.High, get.Median, get.Low, get.High,
			rig.Median(r.of(setClient)), rig.Median(r.of(getClient)), rig.Median(r.of(setGateway)), rig.Median(r.of(getGateway)),
		} {
			row = append(row, fmt.Sprintf("%.2f", v))
		}
		out = append(out, row)
	}
	return out
}
