// Command redis measures the Redis gateway: the size of values in a server, the cost of compression, and the
// cost of the hop compared with a plain forwarder. It starts its own servers and writes to bench/results;
// bench/README.md describes measurements and data.
//
//	go run ./bench/redis [--part sizes,cpu,hop,clients,large,menus,glide] [--runs N] [--menus N] [--cache DIR] [--before BINARY]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/client"
	"github.com/cinch-layer/cinch/test/rig/link"
)

type options struct {
	parts   string
	cache   string
	results string
	runs    int
	menus   int
	python  string
	before  string

	work    string // temporary: binaries, dictionaries, server directories
	cinch   string // built from this tree
	forward string
}

func main() {
	link.Child()
	var o options
	flag.StringVar(&o.parts, "part", "sizes,cpu,hop,clients,large,menus,glide", "parts to measure, separated by commas")
	flag.StringVar(&o.cache, "cache", corpora.DefaultCache(), "directory of the downloaded packages")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results")
	flag.IntVar(&o.runs, "runs", 5, "repetitions of each timed measurement; the median is reported")
	flag.IntVar(&o.menus, "menus", 10_000, "number of menus written and read")
	flag.StringVar(&o.python, "python", client.Interpreter(), "Python interpreter with valkey-glide-sync 2.6.0 from PyPI")
	flag.StringVar(&o.before, "before", "", "path of a cinch built from another commit, which --part hop and --part large measure too")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/redis:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	var err error
	if o.work, err = os.MkdirTemp("", "cinch-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	if err := o.build(); err != nil {
		return err
	}
	for _, part := range strings.Split(o.parts, ",") {
		switch part {
		case "sizes":
			err = o.withCorpora(o.measureSizes)
		case "cpu":
			err = o.withCorpora(o.measureCPU)
		case "hop":
			err = o.measureHop()
		case "clients":
			err = o.measureClients()
		case "large":
			err = o.measureLarge()
		case "menus":
			err = o.measureMenus()
		case "glide":
			err = o.withCorpora(o.measureGlide)
		default:
			err = fmt.Errorf("unknown part %q: use sizes, cpu, hop, clients, large, menus or glide", part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// build compiles the measured programs, since `go run` would put another process in between.
func (o *options) build() error {
	o.cinch, o.forward = filepath.Join(o.work, "cinch"), filepath.Join(o.work, "forward")
	for out, pkg := range map[string]string{o.cinch: "./cmd/cinch", o.forward: "./bench/forward"} {
		if err := rig.Build(out, pkg); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) withCorpora(measure func([]corpus) error) error {
	if err := corpora.Fetch(o.cache); err != nil {
		return err
	}
	all, err := loadCorpora(o.cache)
	if err != nil {
		return err
	}
	return measure(all)
}

func (o *options) report(part, text string) error {
	return rig.ReplacePart(filepath.Join(o.results, "redis.md"), part, text)
}

func (o *options) startForward(upstream *rig.Process) (*rig.Process, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	return rig.Start("forward", addr, o.work, o.forward, addr, upstream.Addr)
}

// startGateway runs cinch serve with one gateway. rule is the YAML of its only rule, "" for none.
func (o *options) startGateway(upstream *rig.Process, rule, dictionary string) (*rig.Process, error) {
	top, settings := "log: {level: warn}", "enabled: false"
	if dictionary != "" {
		top += fmt.Sprintf("\ndictionaries: [{name: trained, file: %q}]", dictionary)
	}
	if rule != "" {
		settings = fmt.Sprintf("rules: [%s]", rule)
	}
	return rig.Gateway(o.cinch, o.work, upstream, top, settings)
}
