package docs

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/internal/config"
)

// schema returns the JSON schema that editors use.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open(root + "/docs/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	document, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var block = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```")

// elsewhere are first keys of YAML that is no configuration of cinch serve.
var elsewhere = []string{"topology", "passwordSecret", "networkPolicy", "serviceMonitor", "jobs", "livenessProbe", "scrape_configs", "prices", "cell", "gates", "apiVersion", "services"}

// Every configuration in the docs is valid by the schema, and complete ones also by the code that reads
// them.
func TestExamples(t *testing.T) {
	s := schema(t)
	count := 0
	for page, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			for _, example := range columns(m[1]) {
				if checkExample(t, s, page, example) {
					count++
				}
			}
		}
	}
	if count < 12 {
		t.Errorf("only %d examples were found", count)
	}
	for file, text := range configurations(t) {
		checkExample(t, s, file, text)
	}
}

// configurations returns YAML files with gateways, except those that are invalid on purpose.
func configurations(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "templates"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.Contains("\n"+string(text), "\ngateways:") {
			found[path] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// columns splits a block with two examples side by side, each of which begins with a comment in the first
// line.
func columns(text string) []string {
	first, _, _ := strings.Cut(text, "\n")
	at := strings.LastIndex(first, "# ")
	if !strings.HasPrefix(first, "# ") || at == 0 {
		return []string{text}
	}
	var left, right strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		cut := min(at, len(line))
		left.WriteString(line[:cut] + "\n")
		right.WriteString(line[cut:] + "\n")
	}
	return []string{left.String(), right.String()}
}

// checkExample reports whether the text is a configuration, or a part of one.
func checkExample(t *testing.T, s *jsonschema.Schema, where, text string) bool {
	t.Helper()
	whole, ok := complete(t, where, text)
	if !ok {
		return false
	}
	// The value is decoded as an editor does it, from YAML to JSON.
	asJSON, err := json.Marshal(whole)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return true
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%s: %v\n%s", where, err, text)
	}
	if _, err := config.Parse("", []byte(text), nil); err != nil && whole["gateways"] != nil && strings.Contains("\n"+text, "\ngateways:") {
		t.Errorf("%s: %v\n%s", where, err, text)
	}
	return true
}

// complete adds what an example leaves out: rules are put in a gateway, gateways in a file.
func complete(t *testing.T, where, text string) (map[string]any, bool) {
	t.Helper()
	var parsed any
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Errorf("%s: %v\n%s", where, err, text)
		return nil, false
	}
	gateway := map[string]any{"name": "a", "protocol": "redis", "listen": "h:1", "upstream": "redis://h"}
	switch part := parsed.(type) {
	case map[string]any:
		for _, key := range elsewhere {
			if part[key] != nil {
				return nil, false
			}
		}
		if part["gateways"] != nil || part["admin"] != nil || part["traces"] != nil {
			return part, true
		}
		maps.Copy(gateway, part)
		return map[string]any{"gateways": []any{gateway}}, true
	case []any:
		first, _ := part[0].(map[string]any)
		if first["alert"] != nil {
			return nil, false
		}
		if first["protocol"] == nil {
			gateway["rules"] = part
			part = []any{gateway}
		}
		return map[string]any{"gateways": part}, true
	}
	t.Errorf("%s: what is this?\n%s", where, text)
	return nil, false
}

// The schema rejects what editors are to mark.
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	const gateway = `{"gateways": [{"name": "a", "protocol": "redis", "listen": ":1", "upstream": "redis://h"%s}]}`
	for text, valid := range map[string]bool{
		``:                                   true,
		`, "enabled": false`:                 true,
		`, "enabled": "no"`:                  false,
		`, "max_seal": "32MiB"`:              true,
		`, "max_seal": 33554432`:             true,
		`, "max_seal": "32 megabytes"`:       false,
		`, "rule": []`:                       false,
		`, "rules": [{"key": "a:*"}]`:        false,
		`, "rules": [{"setting": "zstd-3"}]`: true,
		`, "rules": [{"setting": "zstd-3", "min_gain": "10%"}]`:   true,
		`, "rules": [{"setting": "zstd-3", "min_gain": 10}]`:      false,
		`, "rules": [{"setting": "zstd-3", "type": "hash"}]`:      true,
		`, "rules": [{"setting": "zstd-3", "type": ["list"]}]`:    false,
		`, "pack": {"background": true, "every": "6h"}`:           true,
		`, "pack": {"background": true, "every": "6 hours"}`:      false,
		`, "exclude": "bull:*"`:                                   true,
		`, "rules": [{"setting": "zstd-3", "dictonary": "auto"}]`: false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(gateway, "%s", text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); (err == nil) != valid {
			t.Errorf("%s: valid is %v: %v", text, !valid, err)
		}
	}
}
