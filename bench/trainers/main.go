// Command trainers compares the choice of `dictionary: auto` with five dictionaries that a careful user would
// train by hand, with zstd's own command, on ten corpora of different kinds. All are measured on the same
// values, from sources that no dictionary was trained on. It writes to bench/results/corpora.md, which
// describes the measurements.
//
//	go run ./bench/trainers [--auto | --busy N | --private | --store] [--only NAME,NAME] [--cache DIR]
//	go run ./bench/trainers --pack
//	go run ./bench/trainers --home /usr/bin/redis-server,...
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
)

type options struct {
	cache, results, only string
	home                 string
	busy                 int
	auto, private, store bool
	pack                 bool

	work string // temporary
}

func main() {
	var o options
	flag.StringVar(&o.cache, "cache", corpora.DefaultCache(), "directory of the downloaded packages")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results")
	flag.StringVar(&o.only, "only", "", "corpora to measure, whose lines of the first table are replaced")
	flag.BoolVar(&o.auto, "auto", false, "measure only auto again, and keep the first table's values of dictionaries made by hand")
	flag.IntVar(&o.busy, "busy", 0, "write the second table (auto): number of busy loops that load the processors meanwhile")
	flag.BoolVar(&o.private, "private", false, "write the third table: dictionaries made by hand without strings that fewer than three samples have")
	flag.BoolVar(&o.store, "store", false, "write the fourth table: what a real redis-server holds, by its used_memory, with five more corpora")
	flag.BoolVar(&o.pack, "pack", false, "write the fifth table: what cinch pack makes of a real server")
	flag.StringVar(&o.home, "home", "", "write the sixth table: what a dictionary takes in these servers, separated by commas")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/trainers:", err)
		os.Exit(1)
	}
}

func run(o *options) (err error) {
	if o.work, err = os.MkdirTemp("", "cinch-trainers-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	if err := fetch(o.cache); err != nil {
		return err
	}
	if o.home != "" {
		return o.measureHomes()
	}
	stop, err := busy(o.busy)
	if err != nil {
		return err
	}
	defer stop()
	t, err := o.newTable()
	if err != nil {
		return err
	}
	measure := o.measure
	switch {
	case o.store:
		measure = o.measureStore
	case o.pack:
		if measure, err = o.packMeasurer(); err != nil {
			return err
		}
	}
	for _, k := range o.kinds() {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), k.name) {
			continue
		}
		c, err := load(o.cache, &k)
		if err == nil {
			err = measure(t, c)
		}
		if err == nil {
			err = t.write(o.kinds())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

func fetch(cache string) error {
	if err := corpora.Fetch(cache); err != nil {
		return err
	}
	more := exec.Command("bench/trainers/fetch", cache)
	more.Stderr = os.Stderr
	if err := more.Run(); err != nil {
		return fmt.Errorf("bench/trainers/fetch: %w", err)
	}
	return nil
}

// busy starts processes that only use CPU time.
func busy(n int) (stop func(), err error) {
	var loops []*exec.Cmd
	stop = func() {
		for _, c := range loops {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		loops = append(loops, c)
	}
	return stop, nil
}
