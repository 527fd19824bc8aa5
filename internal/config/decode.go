package config

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// decodeYAML reads one document into c. It walks the nodes itself: yaml's own decoder reports unknown keys
// and lines, but neither the key of a bad value nor a likely correction.
func (c *Config) decodeYAML(text []byte) error {
	d := decoder{problems{c: c}}
	docs := yaml.NewDecoder(strings.NewReader(string(text)))
	var root, more yaml.Node
	if err := docs.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // an empty file
		}
		return d.syntaxError(err)
	}
	if err := docs.Decode(&more); err == nil {
		d.list = append(d.list, Problem{File: c.file, Line: more.Line, Text: "a second document", Hint: "a file must hold one configuration"})
	} else if !errors.Is(err, io.EOF) {
		return d.syntaxError(err)
	}
	d.value(root.Content[0], reflect.ValueOf(c).Elem(), "")
	return d.err()
}

// syntaxError converts "yaml: line 3: …" into a Problem.
func (d *decoder) syntaxError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: d.c.file, Text: text, Hint: `not YAML; patterns with * or [ need quotes, as in key: "menu:*"`}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, message, ok := strings.Cut(rest, ": "); ok {
			p.Line, _ = strconv.Atoi(number)
			p.Text = message
		}
	}
	return &Error{[]Problem{p}}
}

type decoder struct{ problems }

// value decodes n into v, which is settable and holds its defaults.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if _, seen := d.c.lines[path]; path != "" && !seen {
		d.c.lines[path] = n.Line
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, text, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		if x, ok := target.Interface().(interface{ setDefaults() }); ok {
			x.setDefaults()
		}
		d.value(n, target.Elem(), path)
		v.Set(target)
	case reflect.Struct:
		d.fields(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) fields(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.wrongKind(n, path, "keys with values")
		return
	}
	names := fieldNames(v.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		field, known := names[key.Value]
		switch {
		case !known:
			d.unknown(key, at, names)
		case seen[key.Value]:
			d.at(key.Line, at, "", "given twice")
		default:
			seen[key.Value] = true
			d.c.lines[at] = key.Line
			d.value(value, v.Field(field), at)
		}
	}
}

func (d *decoder) unknown(key *yaml.Node, at string, names map[string]int) {
	candidates := make([]string, 0, len(names))
	for name := range names {
		candidates = append(candidates, name)
	}
	hint := "keys here are " + sortedList(candidates)
	if near := terminal.Nearest(key.Value, candidates); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.at(key.Line, at, hint, "unknown key")
}

// sequence decodes a sequence, or a single scalar as a sequence of one.
func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string) {
	items := n.Content
	switch {
	case isNull(n):
		return
	case n.Kind == yaml.ScalarNode && v.Type().Elem().Kind() == reflect.String:
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		d.wrongKind(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if x, ok := out.Index(i).Addr().Interface().(interface{ setDefaults() }); ok {
			x.setDefaults()
		}
		d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(out)
}

func (d *decoder) text(n *yaml.Node, into encoding.TextUnmarshaler, path string) {
	if !d.isScalar(n, path) {
		return
	}
	if err := into.UnmarshalText([]byte(n.Value)); err != nil {
		d.at(n.Line, path, terminal.Hint(err), "%v", err)
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if !d.isScalar(n, path) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Value != "true" && n.Value != "false" {
			d.at(n.Line, path, "write true or false", "%q is neither true nor false", n.Value)
			return
		}
		v.SetBool(n.Value == "true")
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if err != nil {
			d.at(n.Line, path, "", "%q is not a whole number", n.Value)
			return
		}
		v.SetInt(int64(i))
	default:
		panic("config: no decoding for " + v.Type().String())
	}
}

func (d *decoder) isScalar(n *yaml.Node, path string) bool {
	switch {
	case isNull(n):
		d.at(n.Line, path, "leave the key out for the default", "has no value")
	case n.Kind != yaml.ScalarNode:
		d.wrongKind(n, path, "one value")
	default:
		return true
	}
	return false
}

func (d *decoder) wrongKind(n *yaml.Node, path, want string) {
	got := map[yaml.Kind]string{yaml.MappingNode: "keys", yaml.SequenceNode: "a list", yaml.ScalarNode: "one value"}[n.Kind]
	d.at(n.Line, path, "", "want %s, got %s", want, got)
}

func (d *decoder) at(line int, path, hint, format string, args ...any) {
	d.list = append(d.list, Problem{
		File: d.c.file, Line: line, Path: path, Text: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func fieldNames(t reflect.Type) map[string]int {
	names := map[string]int{}
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); tag != "" {
			names[tag] = i
		}
	}
	return names
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
