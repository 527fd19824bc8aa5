// Command pack compares the speed of `cinch pack` with a plain SCAN + GET + SET of the same keys, in turn, on
// a Redis server of its own, and measures the memory that the packer takes. It writes to
// bench/results/pack.md, between the markers of its part.
//
//	go run ./bench/pack [--keys N] [--runs N] [--settings lz4,zstd-3,zstd-3+dict] [--part NAME]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/test/rig"
)

type options struct {
	keys     int
	runs     int
	size     int
	parallel int
	settings string
	part     string
	results  string

	work  string // temporary: binary, dictionary, configuration
	cinch string // built from this tree
	self  string // this program, to run the plain pass in a process of its own
}

func main() {
	var o options
	flag.IntVar(&o.keys, "keys", 1_000_000, "strings in the server")
	flag.IntVar(&o.runs, "runs", 3, "repetitions; the median is reported")
	flag.IntVar(&o.size, "size", 200, "approximate bytes a value")
	flag.IntVar(&o.parallel, "parallel", 4, "pages processed at a time, in both passes")
	flag.StringVar(&o.settings, "settings", "lz4,zstd-3,zstd-3+dict", "codecs and levels to pack with")
	flag.StringVar(&o.part, "part", "million", "part of pack.md to replace; empty: print only")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results")
	plain := flag.String("plain", "", "internal: address of the server for the plain pass")
	flag.Parse()
	var err error
	if *plain != "" {
		err = plainPass(*plain, o.parallel)
	} else {
		err = run(&o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/pack:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	var err error
	if o.work, err = os.MkdirTemp("", "cinch-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	if o.self, err = os.Executable(); err != nil {
		return err
	}
	o.cinch = filepath.Join(o.work, "cinch")
	if err := rig.Build(o.cinch, "./cmd/cinch"); err != nil {
		return err
	}
	if err := o.train(); err != nil {
		return err
	}
	server, err := rig.Redis(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	var rows []row
	for _, setting := range strings.Split(o.settings, ",") {
		r, err := o.measure(server, setting)
		if err != nil {
			return fmt.Errorf("%s: %w", setting, err)
		}
		rows = append(rows, r)
	}
	return o.report(rows)
}

// report replaces the text between the two markers of a part in pack.md; everything else there is written by
// hand.
func (o *options) report(rows []row) error {
	text := tableOf(o, rows)
	fmt.Print(text)
	if o.part == "none" {
		return nil
	}
	path := filepath.Join(o.results, "pack.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin "+o.part+" -->\n", "<!-- end "+o.part+" -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no markers for %s", path, o.part)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
