// Command dict measures the savings of automatic dictionaries: a real `cinch serve` with "dictionary: auto"
// in front of a real redis-server, beside the same gateway without dictionaries. It writes to bench/results;
// dict.md there describes the measurements.
//
//	go run ./bench/dict [--part documents,stream,levels] [--cache DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
)

type options struct {
	parts   string
	cache   string
	results string
	stream  streamOptions

	work  string // temporary: binary, server directories
	cinch string // built from this tree
	rows  [][]string
}

func main() {
	var o options
	flag.StringVar(&o.parts, "part", "documents,stream,levels", "parts to measure, separated by commas")
	flag.StringVar(&o.cache, "cache", corpora.DefaultCache(), "directory of the downloaded packages")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results")
	flag.IntVar(&o.stream.each, "stream", 200_000, "documents of each generation that are written once a dictionary is used")
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
	for _, part := range strings.Split(o.parts, ",") {
		o.rows = nil
		switch part {
		case "documents":
			err = o.measureDocuments()
		case "stream":
			err = o.measureStream()
		case "levels":
			err = o.measureLevels()
		default:
			err = fmt.Errorf("unknown part %q: use documents, stream or levels", part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if err := o.writeRows(part); err != nil {
			return err
		}
	}
	return nil
}

// writeRows replaces the rows of a part in the file.
func (o *options) writeRows(part string) error {
	path := filepath.Join(o.results, "dict.csv")
	old, err := rig.ReadCSV(path)
	if err != nil {
		return err
	}
	rows := [][]string{csvHead}
	for _, row := range old {
		if row[0] != part && row[0] != csvHead[0] {
			rows = append(rows, row)
		}
	}
	return rig.WriteCSV(path, append(rows, o.rows...))
}

func (o *options) report(part, text string) error {
	return rig.ReplacePart(filepath.Join(o.results, "dict.md"), part, text)
}

var csvHead = []string{
	"part", "corpus", "values", "value_bytes", "zstd_bytes", "auto_bytes", "auto_to_zstd",
	"zstd_keys_memory_bytes", "auto_keys_memory_bytes", "dictionary", "dictionary_bytes", "values_with_it",
}
