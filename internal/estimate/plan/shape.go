package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/internal/output/page"
)

// shapes groups JSON documents by their keys. Documents with mostly the same keys have one shape, as fields
// may be optional.
type shapes struct {
	all []shape
}

type shape struct {
	name string
	keys map[string]bool
}

const (
	maxShapes    = 24
	maxKeys      = 64  // of a document to consider
	alike        = 0.5 // share of the combined keys that both have
	namedKeys    = 3
	maxKeyLength = 24 // bytes of a key in a name
)

// of returns the name of the shape of a document: "{id,name,price…}", "[…]", or "" if it is not JSON.
func (s *shapes) of(doc []byte) string {
	keys, kind := topKeys(doc)
	if kind != '{' {
		return map[byte]string{'[': "[…]", 0: ""}[kind]
	}
	best, closest := -1, alike
	for i := range s.all {
		if a := s.all[i].likeness(keys); a >= closest {
			best, closest = i, a
		}
	}
	if best >= 0 {
		return s.all[best].name
	}
	if len(s.all) >= maxShapes {
		return "{other}"
	}
	n := shape{name: nameOf(keys), keys: make(map[string]bool)}
	for _, k := range keys {
		n.keys[k] = true
	}
	s.all = append(s.all, n)
	return n.name
}

func (s *shape) likeness(keys []string) float64 {
	both := 0
	for _, k := range keys {
		if s.keys[k] {
			both++
		}
	}
	either := len(s.keys) + len(keys) - both
	if either == 0 {
		return 1
	}
	return float64(both) / float64(either)
}

func nameOf(keys []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range keys {
		if i == namedKeys {
			b.WriteString("…")
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(clip(k, maxKeyLength))
	}
	b.WriteByte('}')
	return b.String()
}

// clip shortens arbitrary text for a table.
func clip(text string, most int) string {
	text = page.Clean(text)
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// topKeys returns the keys of an object, each once, and the kind of document: '{', '[', 'v' for another JSON
// value, or 0 for none. It reads only the beginning, so that long documents cost no more than short ones.
func topKeys(doc []byte) (keys []string, kind byte) {
	d := json.NewDecoder(bytes.NewReader(doc[:min(len(doc), 64<<10)]))
	first, err := d.Token()
	if err != nil {
		return nil, 0
	}
	delim, ok := first.(json.Delim)
	if !ok {
		return nil, 'v'
	}
	if delim != '{' {
		return nil, byte(delim)
	}
	for d.More() && len(keys) < maxKeys {
		k, err := d.Token()
		name, ok := k.(string)
		if err != nil || !ok {
			break
		}
		if !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			break
		}
	}
	return keys, '{'
}
