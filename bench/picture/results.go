package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// panel is one measured quantity, with a bar for each way.
type panel struct {
	title, unit string
	bars        []bar
}

type bar struct {
	label string
	value float64
	ours  bool // a result of Cinch
}

// row holds a line of a results file by column name.
type row map[string]string

// readPanels reads the figures from the files that benchmarks write.
func readPanels(dir string) ([]panel, error) {
	var p reader
	menus := p.rows(filepath.Join(dir, "redis-menus.csv"))
	peak := p.rows(filepath.Join(dir, "redis-peak.csv"))
	sizes := p.rows(filepath.Join(dir, "redis.csv"))
	panels := []panel{
		{
			"Memory of a Redis server: 10,000 menus of 123 KB", "MB", p.bars(menus, "way", "used_memory_bytes", 1e6,
				bar{label: "plain"}, bar{label: "client: lz4"}, bar{label: "gateway: zstd-3", ours: true}),
		},
		{
			"p99 of a GET at peak load: 64 clients share a link of 1.25 Gbit/s", "ms", p.bars(peak, "way", "p99_us", 1e3,
				bar{label: "plain"}, bar{label: "client: lz4"}, bar{label: "gateway: zstd-3", ours: true}),
		},
		{
			"Bytes of a small JSON document: 1,457 films, no dictionary was trained on them", "bytes", p.bars(only(sizes, "corpus", "movies"), "storing", "stored_bytes", 1457,
				bar{label: "plain"}, bar{label: "zstd-3", ours: true}, bar{label: "zstd-3+dict", ours: true}),
		},
	}
	return panels, p.err
}

// reader keeps the first error, so that callers check errors once.
type reader struct{ err error }

func (r *reader) rows(name string) []row {
	f, err := os.Open(name)
	if err != nil {
		r.fail(err)
		return nil
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) < 2 {
		r.fail(fmt.Errorf("%s: no results (%v)", name, err))
		return nil
	}
	var rows []row
	for _, line := range lines[1:] {
		one := row{}
		for i, name := range lines[0] {
			one[name] = line[i]
		}
		rows = append(rows, one)
	}
	return rows
}

// bars fills in the values and final labels of bars. Each bar's label is at first that of the results.
func (r *reader) bars(rows []row, label, value string, per float64, bars ...bar) []bar {
	for i, b := range bars {
		found := only(rows, label, b.label)
		if len(found) != 1 {
			r.fail(fmt.Errorf("%d results have the name %q", len(found), b.label))
			continue
		}
		v, err := strconv.ParseFloat(found[0][value], 64)
		if err != nil {
			r.fail(err)
		}
		bars[i].value = v / per
		bars[i].label = inWords[b.label]
	}
	return bars
}

var inWords = map[string]string{
	"plain":           "without Cinch",
	"client: lz4":     "LZ4 in the client",
	"gateway: zstd-3": "Cinch, zstd-3",
	"zstd-3":          "Cinch, zstd-3",
	"zstd-3+dict":     "Cinch, zstd-3 + dictionary",
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func only(rows []row, column, value string) []row {
	var found []row
	for _, one := range rows {
		if one[column] == value {
			found = append(found, one)
		}
	}
	return found
}
