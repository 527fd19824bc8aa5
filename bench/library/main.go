// Command library measures the costs and savings of compression in a gateway, in cinchredis, in Valkey GLIDE
// and in django-redis, on the same records in one run. It starts its own servers and writes to
// bench/results/library.md; bench/README.md describes measurements and data.
//
//	go run ./bench/library [--records N] [--rounds N] [--latencies N] [--json]
//	go run ./bench/library --part npm [--packages A,B,…] [--json]     sizes of npm's records, beside GLIDE's zstd
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/client"
)

type options struct {
	cache, results, python        string
	records, rounds, turn, timing int
	json                          bool

	part     string // "": all except npm
	packages string // of npm, separated by commas

	ways     []way
	training string // YAML
	setting  string // of the gateway's compression
	fill     int    // bytes that a store holds before its gateway starts

	work  string // temporary
	cinch string // built from this tree
	self  string // this program, for clients in Go
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == clientRole {
		exit(runClient(os.Args[2:]))
	}
	o := defaults()
	flag.StringVar(&o.cache, "cache", corpora.DefaultCache(), "directory of the records")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results")
	flag.StringVar(&o.python, "python", client.Interpreter(), "Python interpreter with the PyPI packages of scripts/servers install bench")
	flag.IntVar(&o.records, "records", 1000, "largest number of records of each kind")
	flag.IntVar(&o.rounds, "rounds", 60, "rounds of each client with each kind of records")
	flag.IntVar(&o.turn, "turn", 500, "SETs and GETs of a round")
	flag.IntVar(&o.timing, "latencies", 10_000, "timed GETs of 10 KB with each client")
	flag.StringVar(&o.part, "part", "", `run only this part: "npm"`)
	flag.StringVar(&o.packages, "packages", "", "part npm: packages, separated by commas, whose records are downloaded if the cache has none; default: the dependencies of one large application")
	flag.BoolVar(&o.json, "json", false, "print the results as JSON, and write nothing")
	flag.Parse()
	exit(o.run())
}

// defaults returns the defaults of `cinch serve`, except that nothing is trained again during the
// measurement: a dictionary would learn from measured values.
func defaults() *options {
	return &options{ways: ways, training: "{interval: 24h}", setting: "zstd-3", fill: 32 << 20}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/library:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o *options) run() (err error) {
	if err := hasClients(o.python); err != nil {
		return err
	}
	if o.work, err = os.MkdirTemp("", "cinch-library-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	o.cinch = filepath.Join(o.work, "cinch")
	if err := rig.Build(o.cinch, "github.com/cinch-layer/cinch/cmd/cinch"); err != nil {
		return err
	}
	switch o.part {
	case "":
		return o.runAll()
	case "npm":
		return o.runNPM()
	}
	return fmt.Errorf("unknown part %q", o.part)
}

func (o *options) runAll() error {
	if err := corpora.Fetch(o.cache); err != nil {
		return err
	}
	if err := fetchNPM(o.cache); err != nil {
		return err
	}
	all, err := load(o.cache, o.records)
	if err != nil {
		return err
	}
	r, err := o.measure(all)
	if err != nil {
		return err
	}
	return o.report(r)
}

// page is a result with tables on the page of results.
type page interface {
	write(path string) error
}

func (o *options) report(r page) error {
	if o.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.write(filepath.Join(o.results, "library.md"))
}

func fetchNPM(cache string, packages ...string) error {
	fetch := exec.Command("bench/library/fetch", append([]string{cache}, packages...)...)
	fetch.Stderr = os.Stderr
	if err := fetch.Run(); err != nil {
		return fmt.Errorf("bench/library/fetch: %w", err)
	}
	return nil
}

// hasClients returns an error if the Python clients are not installed.
func hasClients(python string) error {
	if err := exec.Command(python, "-c", "import glide_sync, django_redis, pyzstd").Run(); err != nil {
		return fmt.Errorf("%s has no Valkey GLIDE or django-redis: scripts/servers install bench, or --python", python)
	}
	return nil
}

// command returns the command line of this run.
func command() string {
	return strings.Join(append([]string{"go run ./bench/library"}, os.Args[1:]...), " ")
}

// measure runs all measurements.
func (o *options) measure(all []*data) (r *result, err error) {
	if o.self, err = os.Executable(); err != nil {
		return nil, err
	}
	watch := rig.StartWatch()
	r = &result{Command: command(), Machine: rig.Machine(), Rounds: o.rounds, Turn: o.turn}
	for _, d := range all {
		if err := o.train(d); err != nil {
			return nil, fmt.Errorf("%s: dictionary: %w", d.Name, err)
		}
		rows, err := o.measureAll(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		r.Data, r.Rows = append(r.Data, d), append(r.Rows, rows...)
	}
	r.Load = [2]string{watch.End().LoadBefore, rig.LoadAverage()}
	if r.Latency, err = o.measureLatency(all[0]); err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	return r, nil
}
