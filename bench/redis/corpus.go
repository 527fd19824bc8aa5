package main

import (
	"crypto/sha256"
	"fmt"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// corpus is one kind of record, split in two. A record belongs to a source (an API, a
// distributor, a country …), and all records of a source are on the same side of the split.
type corpus struct {
	name     string
	class    string // "small" or "large"
	about    string
	train    [][]byte // what dictionaries are made from
	measured [][]byte // what everything is measured on
	sources  [2]int   // on each side
}

const (
	small = "small" // 200 B to 3 KB
	large = "large" // 10 KB and up

	maxRecords = 2000     // of each side
	maxBytes   = 24 << 20 // of each side
)

// bounds are the sizes, in bytes, of a class. Beyond 256 KB a few documents would be the
// whole corpus.
var bounds = map[string][2]int{small: {200, 3 << 10}, large: {10_000, 256 << 10}}

var kinds = []struct {
	name, class, about string
	load               func(dir string) ([]corpora.Record, error)
}{
	{"movies", small, "films, by distributor (vega-datasets)", corpora.Movies},
	{"quakes", small, "earthquakes as GeoJSON features, by seismic network (vega-datasets)", corpora.Quakes},
	{"countries", small, "facts about countries, by subregion (world-countries)", corpora.Countries},
	{"compat", small, "which browser supports a feature, by interface (@mdn/browser-compat-data)", corpora.Compat},
	{"schemas", small, "JSON schemas of messages, by API (google-api-python-client)", corpora.Schemas},
	{"webhooks", large, "event payloads, by event (@octokit/webhooks-examples)", corpora.Webhooks},
	{"features", large, "feature descriptions as their files are, indented; each its own source (caniuse-db)", corpora.Features},
	{"borders", large, "borders as GeoJSON, mostly numbers, by country (world-countries)", corpora.Borders},
	{"apis", large, "API descriptions, by API, all versions together (google-api-python-client)", corpora.APIs},
}

func loadCorpora(cache string) ([]corpus, error) {
	var all []corpus
	for _, k := range kinds {
		records, err := k.load(cache)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		c := corpus{name: k.name, class: k.class, about: k.about}
		c.split(records)
		if len(c.train) < 20 || len(c.measured) < 20 {
			return nil, fmt.Errorf("%s: %d records to train on and %d to measure are too few", k.name, len(c.train), len(c.measured))
		}
		all = append(all, c)
	}
	return all, nil
}

// split puts each source on one side, by its hash. A value that occurs twice counts once,
// or a dictionary might hold what is measured.
func (c *corpus) split(records []corpora.Record) {
	limits := bounds[c.class]
	seen := map[[32]byte]bool{}
	sources := [2]map[string]bool{{}, {}}
	var sides [2][][]byte
	for _, r := range records {
		sum := sha256.Sum256(r.Value)
		if n := len(r.Value); n < limits[0] || n > limits[1] || seen[sum] {
			continue
		}
		seen[sum] = true
		side := sha256.Sum256([]byte(c.name + "/" + r.Source))[0] & 1
		sides[side] = append(sides[side], r.Value)
		sources[side][r.Source] = true
	}
	c.train, c.measured = thin(sides[0]), thin(sides[1])
	c.sources = [2]int{len(sources[0]), len(sources[1])}
}

// thin takes every n-th record, so that neither count nor bytes pass the limits.
func thin(values [][]byte) [][]byte {
	total := 0
	for _, v := range values {
		total += len(v)
	}
	step := max(1, (len(values)+maxRecords-1)/maxRecords, (total+maxBytes-1)/maxBytes)
	var out [][]byte
	for i := 0; i < len(values); i += step {
		out = append(out, values[i])
	}
	return out
}

func totalBytes(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}
