// Command redis measures the Redis gateway: what values take in a server, what sealing
// costs, and what the hop costs beside a plain forwarder. It starts servers of its own and
// writes to bench/results; bench/README.md tells what is measured on what.
//
//	go run ./bench/redis [--part sizes,cpu,hop] [--runs N] [--cache DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

type options struct {
	parts   string
	cache   string
	results string
	runs    int

	work    string // temporary: binaries, dictionaries, servers' directories
	cinch   string // built from this tree
	forward string
}

func main() {
	var o options
	flag.StringVar(&o.parts, "part", "sizes,cpu,hop", "what to measure")
	flag.StringVar(&o.cache, "cache", defaultCache(), "where the packages are kept")
	flag.StringVar(&o.results, "results", "bench/results", "where results are written")
	flag.IntVar(&o.runs, "runs", 5, "repetitions of everything that is timed; the median counts")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/redis:", err)
		os.Exit(1)
	}
}

func defaultCache() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "cinch-bench", "redis")
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
		default:
			err = fmt.Errorf("no part %q: sizes, cpu, hop", part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// build compiles what is measured: a `go run` of its own would be a second process.
func (o *options) build() error {
	o.cinch, o.forward = filepath.Join(o.work, "cinch"), filepath.Join(o.work, "forward")
	for out, pkg := range map[string]string{o.cinch: "./cmd/cinch", o.forward: "./bench/forward"} {
		if text, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
		}
	}
	return nil
}

func (o *options) withCorpora(measure func([]corpus) error) error {
	fetch := exec.Command("bench/redis/fetch", o.cache)
	fetch.Stderr = os.Stderr
	if err := fetch.Run(); err != nil {
		return fmt.Errorf("bench/redis/fetch: %w", err)
	}
	all, err := loadCorpora(o.cache)
	if err != nil {
		return err
	}
	return measure(all)
}
