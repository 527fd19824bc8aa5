// Command dict measures what dictionaries save that nobody looks after: a real `cinch
// serve` with "dictionary: auto" in front of a real redis-server, beside the same gateway
// without dictionaries. It writes to bench/results; dict.md there tells what is measured.
//
//	go run ./bench/dict [--part documents,stream] [--cache DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/bench/rig"
)

type options struct {
	parts   string
	cache   string
	results string
	stream  streamOptions

	work  string // temporary: the binary, servers' directories
	cinch string // built from this tree
	rows  [][]string
}

func main() {
	var o options
	flag.StringVar(&o.parts, "part", "documents,stream", "what to measure; dict.csv is written when it is both")
	flag.StringVar(&o.cache, "cache", corpora.DefaultCache(), "where the packages are kept")
	flag.StringVar(&o.results, "results", "bench/results", "where results are written")
	flag.IntVar(&o.stream.each, "stream", 240_000, "documents of the stream before the change of shape, and after it")
	flag.IntVar(&o.stream.rate, "rate", 3000, "documents of the stream a second")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/dict:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	var err error
	if o.work, err = os.MkdirTemp("", "cinch-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	o.cinch = filepath.Join(o.work, "cinch")
	if err := rig.Build(o.cinch, "./cmd/cinch"); err != nil {
		return err
	}
	if err := corpora.Fetch(o.cache); err != nil {
		return err
	}
	o.rows = [][]string{csvHead}
	parts := strings.Split(o.parts, ",")
	for _, part := range parts {
		switch part {
		case "documents":
			err = o.measureDocuments()
		case "stream":
			err = o.measureStream()
		default:
			err = fmt.Errorf("no part %q: documents, stream", part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	if len(parts) < 2 {
		return nil
	}
	return rig.WriteCSV(filepath.Join(o.results, "dict.csv"), o.rows)
}

func (o *options) report(part, text string) error {
	return rig.ReplacePart(filepath.Join(o.results, "dict.md"), part, text)
}

var csvHead = []string{
	"part", "corpus", "values", "value_bytes", "zstd_bytes", "auto_bytes", "auto_to_zstd",
	"zstd_keys_memory_bytes", "auto_keys_memory_bytes", "dictionary", "dictionary_bytes", "values_with_it",
}
