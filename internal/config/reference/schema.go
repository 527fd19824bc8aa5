package reference

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
)

// SchemaID is where editors find the schema of the newest version.
const SchemaID = "https://raw.githubusercontent.com/cinch-layer/cinch/main/docs/config.schema.json"

// object is a JSON object whose keys encoding/json writes in alphabetical order, so that two runs agree.
type object map[string]any

// Schema is the JSON schema of the configuration file. It knows the shape of the file; what values
// mean to each other only `cinch config check` knows.
func Schema() ([]byte, error) {
	m := maker{said: described()}
	root := m.structure(reflect.TypeFor[config.Config](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Configuration of cinch serve"
	if len(m.missing) > 0 {
		return nil, fmt.Errorf("keys that no row describes: %s", strings.Join(m.missing, ", "))
	}
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

type maker struct {
	said    map[string][]said
	missing []string
}

// structure is an object with the keys of t and no others, as the decoder has it.
func (m *maker) structure(t reflect.Type, path string) object {
	properties := object{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "" {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		key := m.value(t.Field(i).Type, at)
		m.describe(key, at)
		properties[name] = key
	}
	of := object{"type": "object", "properties": properties, "additionalProperties": false}
	if needed := required[path]; needed != nil {
		of["required"] = needed
	}
	return of
}

var required = map[string][]string{
	"dictionaries":   {"name", "file"},
	"gateways":       {"name", "protocol", "listen", "upstream"},
	"gateways.rules": {"setting"},
}

// value is a key of type t. What reads itself from text is asked for its form first, as the decoder does.
func (m *maker) value(t reflect.Type, path string) object {
	if of, known := scalar(t, path); known {
		return of
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		panic("reference: no form for " + t.String())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem(), path)
	case reflect.Struct:
		return m.structure(t, path)
	case reflect.Slice:
		items := m.value(t.Elem(), path)
		list := object{"type": "array", "items": items}
		if t.Elem().Kind() == reflect.String {
			return object{"anyOf": []object{items, list}}
		}
		return list
	}
	panic("reference: no form for " + t.String())
}

// alias leads to the one row of keys that are in two places.
var alias = strings.NewReplacer("admin.tls.", "gateways.tls.")

// describe adds what the rows say. Objects need no row of their own where their keys have some.
func (m *maker) describe(key object, path string) {
	rows := m.said[path]
	if len(rows) == 0 {
		rows = m.said[alias.Replace(path)]
	}
	if len(rows) == 0 {
		if key["properties"] == nil && key["items"] == nil {
			m.missing = append(m.missing, path)
		}
		return
	}
	var texts []string
	for _, s := range rows {
		text := plain(s.row.Meaning)
		if s.row.Default != "" && s.row.Default != "none" && s.row.Default != "needed" {
			text += ". Default: " + plain(s.row.Default)
		}
		if len(rows) > 1 {
			text = s.of + ": " + text
		}
		texts = append(texts, text)
	}
	key["description"] = strings.Join(texts, "\n")
}

var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)#]*)[^)]*\)`)

// plain is the text without Markdown, for editors that show none.
func plain(markdown string) string {
	return strings.ReplaceAll(link.ReplaceAllString(markdown, "$1"), "`", "")
}
