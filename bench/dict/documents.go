package main

import (
	"fmt"
	"strconv"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
)

// Documents of 2 to 12 KB as registry packages ship them. Each source of a corpus is on one of two sides: the
// gateway may learn from one, and the other is measured.

const minDocument, maxDocument = 2 << 10, 12 << 10

var documentKinds = []struct {
	name, about string
	load        func(dir string) ([]corpora.Record, error)
}{
	{"features", "feature descriptions; each its own source (caniuse-db)", corpora.CompactFeatures},
	{"interfaces", "which browser supports what of an interface, by interface (@mdn/browser-compat-data)", corpora.Interfaces},
	{"resources", "resources of APIs, by API, all versions together (google-api-python-client)", corpora.Resources},
	{"webhooks", "event payloads, by event (@octokit/webhooks-examples)", corpora.Webhooks},
	{"countries", "facts about countries, by subregion (world-countries)", corpora.Countries},
}

type documents struct {
	name, about    string
	learn, measure [][]byte
	sources        [2]int // on each side
}

func loadDocuments(cache string) ([]documents, error) {
	var all []documents
	for _, k := range documentKinds {
		records, err := k.load(cache)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		sides := corpora.Split(k.name, records, minDocument, maxDocument)
		if len(sides.Learn) < 50 || len(sides.Measure) < 50 {
			return nil, fmt.Errorf("%s: too few documents: %d and %d", k.name, len(sides.Learn), len(sides.Measure))
		}
		all = append(all, documents{k.name, k.about, sides.Learn, sides.Measure, sides.Sources})
	}
	return all, nil
}

// documentResult holds the sizes of a corpus's measured side.
type documentResult struct {
	*documents
	plain, auto holding
	number      uint32 // of the dictionary
	bytes       int    // of the dictionary
	passes      int    // over the learning side, until there was a dictionary
}

func (o *options) measureDocuments() error {
	all, err := loadDocuments(o.cache)
	if err != nil {
		return err
	}
	var results []documentResult
	for i := range all {
		r := documentResult{documents: &all[i]}
		if err := o.measureOne(&r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Printf("%-10s zstd %d auto %d: %.3f, dictionary %08x of %d bytes\n", r.name, r.plain.stored, r.auto.stored, share(r.auto.stored, r.plain.stored), r.number, r.bytes)
		results = append(results, r)
		o.rows = append(o.rows, csvRow("documents", r.name, total(r.measure), r.plain, r.auto, r.number, r.bytes))
	}
	return o.report("documents", documentsTable(results))
}

func (o *options) measureOne(r *documentResult) error {
	auto, err := o.site("", ruleAuto)
	if err != nil {
		return err
	}
	defer auto.stop()
	// Applications write documents again and again, for example into a cache.
	err = auto.await("dictionary rolled out", 1, func() error {
		r.passes++
		return auto.set("learn", 0, r.learn)
	})
	if err != nil {
		return err
	}
	// The dictionary exists before the first measured value is written, and its number follows from its
	// content, so it can't have learned from them.
	before, err := auto.dictionaries()
	if err != nil || len(before) != 1 {
		return fmt.Errorf("expected one dictionary, got %v: %v", before, err)
	}
	for r.number, r.bytes = range before {
	}
	if r.auto, err = auto.fill(r.measure); err != nil {
		return err
	}
	if n := r.auto.byDict[r.number]; n+r.auto.byDict[0] != len(r.measure) {
		return fmt.Errorf("values name dictionaries other than %08x: %v", r.number, r.auto.byDict)
	}
	plain, err := o.site("", rulePlain)
	if err != nil {
		return err
	}
	defer plain.stop()
	r.plain, err = plain.fill(r.measure)
	return err
}

// fill writes values, reads them back and returns their sizes.
func (s *site) fill(values [][]byte) (holding, error) {
	if err := s.set("measured", 0, values); err != nil {
		return holding{}, err
	}
	if err := s.check("measured", 0, values); err != nil {
		return holding{}, err
	}
	return s.holding("measured", 0, len(values))
}

func total(values [][]byte) (n int64) {
	for _, v := range values {
		n += int64(len(v))
	}
	return n
}

func share(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }

func documentsTable(results []documentResult) string {
	var b rig.Table
	b.Row("corpus", "what, by which source", "learned from", "measured", "bytes a value", "zstd", "auto", "**auto / zstd**", "keys' memory", "dictionary KB", "worth it from, values")
	b.Rule(11)
	for _, r := range results {
		raw := total(r.measure)
		b.Row(r.name, r.about, fmt.Sprintf("%d of %d sources", len(r.learn), r.sources[0]), fmt.Sprintf("%d of %d sources", len(r.measure), r.sources[1]),
			strconv.FormatInt(raw/int64(len(r.measure)), 10), times(raw, r.plain.stored), times(raw, r.auto.stored),
			fmt.Sprintf("**%.3f**", share(r.auto.stored, r.plain.stored)), fmt.Sprintf("%.3f", share(r.auto.keys, r.plain.keys)),
			fmt.Sprintf("%.0f", float64(r.bytes)/1024), strconv.Itoa(breakEven(r)))
	}
	return b.String()
}

func times(raw, stored int64) string { return fmt.Sprintf("%.2fx", float64(raw)/float64(stored)) }

// dictCost is the server memory, in bytes, that each byte of a dictionary takes; see docs/DICTIONARIES.md.
const dictCost = 2.9

// breakEven returns the number of values from which on the dictionary has saved more memory than it takes.
func breakEven(r documentResult) int {
	saved := float64(r.plain.keys-r.auto.keys) / float64(len(r.measure))
	return int(dictCost*float64(r.bytes)/saved) + 1
}

func csvRow(part, corpus string, raw int64, plain, auto holding, number uint32, bytes int) []string {
	row := []string{part, corpus}
	for _, n := range []int64{int64(auto.values), raw, plain.stored, auto.stored} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return append(row, fmt.Sprintf("%.3f", share(auto.stored, plain.stored)), strconv.FormatInt(plain.keys, 10), strconv.FormatInt(auto.keys, 10),
		fmt.Sprintf("%08x", number), strconv.Itoa(bytes), strconv.Itoa(auto.byDict[number]))
}
