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

// SchemaID is the URL of the newest version's schema, for editors.
const SchemaID = "https://raw.githubusercontent.com/cinch-layer/cinch/main/docs/config.schema.json"

// object is a JSON object. encoding/json sorts its keys, so that two runs agree.
type object map[string]any

// Schema returns the JSON schema of the configuration file. It describes the file's shape; only `cinch config
// check` checks how values relate.
func Schema() ([]byte, error) {
	m := schemaBuilder{said: described()}
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

type schemaBuilder struct {
	said    map[string][]protocolRow
	missing []string
}

// structure returns the schema of an object that has the keys of t and no others, like the decoder.
func (m *schemaBuilder) structure(t reflect.Type, path string) object {
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

// value returns the schema of a key of type t. Like the decoder, it first checks whether the type is read
// from text.
func (m *schemaBuilder) value(t reflect.Type, path string) object {
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

// alias maps keys that occur in two places to those with a row.
var alias = strings.NewReplacer("admin.tls.", "gateways.tls.")

// describe adds the rows' texts. Objects whose keys have rows need none of their own.
func (m *schemaBuilder) describe(key object, path string) {
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

// plain returns the text without Markdown, for editors that don't render it.
func plain(markdown string) string {
	return strings.ReplaceAll(link.ReplaceAllString(markdown, "$1"), "`", "")
}
