package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/internal/page"
)

// shapes tells JSON documents apart by the keys that they have. Documents whose keys are
// mostly the same have one shape, as fields may be optional.
type shapes struct {
	all []shape
}

type shape struct {
	name string
	keys map[string]bool
}

const (
	maxShapes    = 24
	maxKeys      = 64  // of a document that are looked at
	alike        = 0.5 // of the keys of both together, that both have
	namedKeys    = 3
	maxKeyLength = 24 // bytes of a key in a name
)

// of names the shape of a document: "{id,name,price…}", "[…]" or "" for what is no JSON.
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

// clip makes a short text fit for a table of what may be anything.
func clip(text string, most int) string {
	text = page.Clean(text)
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// topKeys returns the keys of an object, each once, and what the document begins with: '{',
// '[', 'v' for another JSON value or 0 for what is none. It looks at the beginning only,
// so that long documents cost no more than short ones.
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
