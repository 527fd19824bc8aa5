package main

import (
	"fmt"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// corpus is one kind of record, split in two. Each record belongs to a source (an API, a distributor, a
// country …), and all records of a source are on the same side of the split.
type corpus struct {
	name     string
	class    string // "small" or "large"
	about    string
	train    [][]byte // for training dictionaries
	measured [][]byte // for all measurements
	sources  [2]int   // on each side
}

const (
	small = "small" // 200 B to 3 KB
	large = "large" // 10 KB and up

	maxRecords = 2000     // of each side
	maxBytes   = 24 << 20 // of each side
)

// bounds holds the sizes, in bytes, of each class. Above 256 KB a few documents would be the whole corpus.
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
		sides := corpora.Split(k.name, records, bounds[k.class][0], bounds[k.class][1])
		c := corpus{name: k.name, class: k.class, about: k.about, sources: sides.Sources}
		c.train, c.measured = corpora.Spread(sides.Learn, maxRecords, maxBytes), corpora.Spread(sides.Measure, maxRecords, maxBytes)
		if len(c.train) < 20 || len(c.measured) < 20 {
			return nil, fmt.Errorf("%s: too few records: %d to train on, %d to measure", k.name, len(c.train), len(c.measured))
		}
		all = append(all, c)
	}
	return all, nil
}
