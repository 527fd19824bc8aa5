package corpora

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

// This file cuts large documents into the parts that an application would store: 2 to 12 KB.

// maxInterface limits, in bytes, an interface's data, with everything below it, that becomes one document.
// Longer ones are split at the next level.
const maxInterface = 12_000

// Interfaces loads records of browser support, one per web interface; the source is the interface.
func Interfaces(dir string) ([]Record, error) {
	var top map[string]json.RawMessage
	if err := readJSON(&top, dir, "browser-compat-data/data.json"); err != nil {
		return nil, err
	}
	delete(top, "__meta")
	delete(top, "browsers")
	var out []Record
	for _, area := range sortedNames(top) {
		out = interfaces(out, top[area], []string{area})
	}
	return out, nil
}

func interfaces(out []Record, raw json.RawMessage, path []string) []Record {
	var node map[string]json.RawMessage
	if json.Unmarshal(raw, &node) != nil {
		return out
	}
	for _, name := range sortedNames(node) {
		below := append(path[:len(path):len(path)], name)
		text := compact(node[name])
		if name == "__compat" || !bytes.HasPrefix(text, []byte("{")) {
			continue
		}
		if len(text) <= maxInterface {
			out = append(out, Record{strings.Join(below[:2], "/"), text})
		} else {
			out = interfaces(out, node[name], below)
		}
	}
	return out
}

// Resources loads the descriptions of APIs' resources; the source is the API. A record holds a resource with
// all resources below it, which are records of their own too.
func Resources(dir string) (out []Record, err error) {
	err = eachFile(filepath.Join(dir, discoveryDocuments), func(name string, text []byte) error {
		out, err = resources(out, text, apiOf(name))
		return err
	})
	return out, err
}

func resources(out []Record, text []byte, api string) ([]Record, error) {
	var node struct{ Resources map[string]json.RawMessage }
	if err := json.Unmarshal(text, &node); err != nil {
		return out, err
	}
	for _, name := range sortedNames(node.Resources) {
		out = append(out, Record{api, compact(node.Resources[name])})
		var err error
		if out, err = resources(out, node.Resources[name], api); err != nil {
			return out, err
		}
	}
	return out, nil
}

// CompactFeatures returns the same as Features, without white space.
func CompactFeatures(dir string) ([]Record, error) {
	all, err := Features(dir)
	for i := range all {
		all[i].Value = compact(all[i].Value)
	}
	return all, err
}
