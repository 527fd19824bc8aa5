package reference

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/internal/config"
)

// The committed files are up to date with the code.
func TestReferenceIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	anew, err := Page(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if anew != string(page) {
		t.Error("docs/CONFIG.md has other tables; change the rows in this package, then: go run ./packaging/reference")
	}
	schema, err := os.ReadFile("../../../docs/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	made, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if string(made) != string(schema) {
		t.Error("docs/config.schema.json is old: go run ./packaging/reference")
	}
}

// Rows describe existing keys. (Schema checks that each key has a row.)
func TestRowsAreKeys(t *testing.T) {
	known := map[string]bool{}
	walk(reflect.TypeFor[config.Config](), "", known)
	for path := range described() {
		if !known[path] {
			t.Errorf("there is no %s", path)
		}
	}
}

func walk(t reflect.Type, path string, known map[string]bool) {
	known[path] = true
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name != "" {
			walk(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."), known)
		}
	}
}

// The documented defaults of the process and of training are those of the code.
func TestDefaults(t *testing.T) {
	shown, err := config.Default().YAML()
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(shown, &values); err != nil {
		t.Fatal(err)
	}
	for below, rows := range map[string][]Row{"": process, "training.": training} {
		for _, r := range rows {
			if want := strings.Trim(r.Default, "`"); want != r.Default && r.Keys != "" {
				if got := at(values, below+r.keys()[0]); got != want && strings.TrimSuffix(got, "0s") != want {
					t.Errorf("%s%s is %s, not %s", below, r.Keys, got, r.Default)
				}
			}
		}
	}
}

// at returns the value at a path in nested maps.
func at(values map[string]any, path string) string {
	key, rest, nested := strings.Cut(path, ".")
	if below, ok := values[key].(map[string]any); ok && nested {
		return at(below, rest)
	}
	return fmt.Sprint(values[key])
}
