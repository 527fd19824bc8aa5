// Package corpora reads real records from public packages, which bench/redis/fetch downloads.
package corpora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Record is a value as an application would store it.
type Record struct {
	Source string // an API, a distributor, a country …
	Value  []byte
}

// Fetch downloads the packages that are missing into dir.
func Fetch(dir string) error {
	fetch := exec.Command("bench/redis/fetch", dir)
	fetch.Stderr = os.Stderr
	if err := fetch.Run(); err != nil {
		return fmt.Errorf("bench/redis/fetch: %w", err)
	}
	return nil
}

// DefaultCache returns the directory that the packages are kept in.
func DefaultCache() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "cinch-bench", "redis")
}

// compact removes white space, which applications do not store.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil // shorter than any class
	}
	return b.Bytes()
}

func readJSON(into any, path ...string) error {
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// grouped makes records of raw values. source returns where a value comes from.
func grouped(list []json.RawMessage, source func(json.RawMessage) string) []Record {
	out := make([]Record, 0, len(list))
	for _, raw := range list {
		out = append(out, Record{source(raw), compact(raw)})
	}
	return out
}

// Movies loads the corpus that bench/README.md describes.
func Movies(dir string) ([]Record, error) {
	var list []json.RawMessage
	err := readJSON(&list, dir, "vega-datasets/data/movies.json")
	return grouped(list, func(raw json.RawMessage) string {
		var m struct{ Distributor string }
		_ = json.Unmarshal(raw, &m)
		return m.Distributor
	}), err
}

// Quakes loads the corpus that bench/README.md describes.
func Quakes(dir string) ([]Record, error) {
	var file struct{ Features []json.RawMessage }
	err := readJSON(&file, dir, "vega-datasets/data/earthquakes.json")
	return grouped(file.Features, func(raw json.RawMessage) string {
		var m struct{ Properties struct{ Net string } }
		_ = json.Unmarshal(raw, &m)
		return m.Properties.Net
	}), err
}

// Countries loads the corpus that bench/README.md describes.
func Countries(dir string) ([]Record, error) {
	var list []json.RawMessage
	err := readJSON(&list, dir, "world-countries/countries.json")
	return grouped(list, func(raw json.RawMessage) string {
		var m struct{ Subregion string }
		_ = json.Unmarshal(raw, &m)
		return m.Subregion
	}), err
}

// Compat loads the corpus that bench/README.md describes.
func Compat(dir string) ([]Record, error) {
	var top map[string]json.RawMessage
	if err := readJSON(&top, dir, "browser-compat-data/data.json"); err != nil {
		return nil, err
	}
	delete(top, "__meta")
	delete(top, "browsers")
	return compatRecords(nil, top, nil), nil
}

// compatRecords walks a tree whose nodes may have a record under __compat. The source is the first two names
// of the path.
func compatRecords(out []Record, node map[string]json.RawMessage, path []string) []Record {
	for _, name := range sortedNames(node) {
		if name == "__compat" {
			out = append(out, Record{strings.Join(path[:min(2, len(path))], "/"), compact(node[name])})
			continue
		}
		var child map[string]json.RawMessage
		if json.Unmarshal(node[name], &child) == nil {
			out = compatRecords(out, child, append(path[:len(path):len(path)], name))
		}
	}
	return out
}

func sortedNames(m map[string]json.RawMessage) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// eachFile calls f with the name and content of each file that matches, in the order of names.
func eachFile(pattern string, f func(name string, text []byte) error) error {
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no files at %s", pattern)
	}
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil {
			err = f(filepath.Base(path), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const discoveryDocuments = "google-api-python-client/googleapiclient/discovery_cache/documents/*.json"

// apiOf returns the name before the version: compute for compute.v1.json.
func apiOf(file string) string {
	name, _, _ := strings.Cut(file, ".")
	return name
}

// Schemas loads the corpus that bench/README.md describes.
func Schemas(dir string) (out []Record, err error) {
	err = eachFile(filepath.Join(dir, discoveryDocuments), func(name string, text []byte) error {
		var doc struct{ Schemas map[string]json.RawMessage }
		if name == "index.json" {
			return nil
		}
		err := json.Unmarshal(text, &doc)
		for _, schema := range sortedNames(doc.Schemas) {
			out = append(out, Record{apiOf(name), compact(doc.Schemas[schema])})
		}
		return err
	})
	return out, err
}

// APIs loads the corpus that bench/README.md describes.
func APIs(dir string) (out []Record, err error) {
	err = eachFile(filepath.Join(dir, discoveryDocuments), func(name string, text []byte) error {
		out = append(out, Record{apiOf(name), compact(text)})
		return nil
	})
	return out, err
}

// Webhooks loads the corpus that bench/README.md describes.
func Webhooks(dir string) ([]Record, error) {
	var events []struct {
		Name     string
		Examples []json.RawMessage
	}
	err := readJSON(&events, dir, "webhooks-examples/api.github.com/index.json")
	var out []Record
	for _, e := range events {
		out = append(out, grouped(e.Examples, func(json.RawMessage) string { return e.Name })...)
	}
	return out, err
}

// Features loads the corpus that bench/README.md describes.
func Features(dir string) (out []Record, err error) {
	err = eachFile(filepath.Join(dir, "caniuse-db/features-json/*.json"), func(name string, text []byte) error {
		out = append(out, Record{name, text})
		return nil
	})
	return out, err
}

// Borders loads the corpus that bench/README.md describes.
func Borders(dir string) (out []Record, err error) {
	err = eachFile(filepath.Join(dir, "world-countries/data/*.geo.json"), func(name string, text []byte) error {
		out = append(out, Record{name, compact(text)})
		return nil
	})
	return out, err
}
