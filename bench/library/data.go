package main

import (
	"fmt"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// data is a kind of records.
type data struct {
	Name       string     `json:"name"`
	About      string     `json:"about"`
	Learned    int        `json:"learned"`    // records that the dictionary could learn from
	Sources    [2]int     `json:"sources"`    // of the learned and of the measured records
	Records    int        `json:"records"`    // number of measured records
	Bytes      int        `json:"bytes"`      // their total size
	Dictionary dictionary `json:"dictionary"` // of the trained stores

	learn, measure [][]byte
	large          [][]byte // records of about 10 KB from the measured side
	dump           string   // a Redis dump that holds dictionary and policy
}

// Sizes, in bytes, of values that count as about 10 KB.
const leastLarge, mostLarge = 8 << 10, 12 << 10

var kinds = []struct {
	name, about string
	load        func(dir string) ([]corpora.Record, error)
	least, most int // bytes
}{
	{"packages", "npm's records of versions of packages, 2 to 12 KiB, by owner of the source", corpora.Packages, 2 << 10, 12 << 10},
	{"films", "films, 200 to 420 B, by distributor (vega-datasets)", corpora.Movies, 200, 420},
}

func load(cache string, records int) (all []*data, err error) {
	for _, k := range kinds {
		list, err := k.load(cache)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		sides := corpora.Split(k.name, list, k.least, k.most)
		if len(sides.Learn) < 1000 || len(sides.Measure) < 500 {
			return nil, fmt.Errorf("%s: too few records: %d to train on, %d to measure", k.name, len(sides.Learn), len(sides.Measure))
		}
		all = append(all, newData(k.name, k.about, sides, records))
	}
	return all, nil
}

func newData(name, about string, sides corpora.Sides, records int) *data {
	d := &data{Name: name, About: about, Sources: sides.Sources, learn: sides.Learn, large: largeOf(sides.Measure)}
	d.measure = corpora.Spread(sides.Measure, records, 64<<20)
	d.Learned, d.Records, d.Bytes = len(d.learn), len(d.measure), corpora.TotalBytes(d.measure)
	return d
}

func largeOf(values [][]byte) (large [][]byte) {
	for _, v := range values {
		if len(v) >= leastLarge && len(v) <= mostLarge {
			large = append(large, v)
		}
	}
	return large
}
