package kubernetes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The modules that contain the schemas; they come from the Go module proxy and stay in Go's cache. The
// version of the first is kubeVersion.
const (
	kubernetesModule = "k8s.io/kubernetes@v" + kubeVersion
	operatorModule   = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// module downloads a module and returns its directory.
func module(t testing.TB, name string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", name)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if e := json.Unmarshal(out, &found); err != nil || e != nil || found.Error != "" {
		t.Fatalf("go mod download %s: %v: %s", name, err, out)
	}
	return found.Dir
}

// operatorFiles returns the CRD files of the Prometheus operator's kinds that the chart uses.
func operatorFiles(t testing.TB) []string {
	t.Helper()
	dir := filepath.Join(module(t, operatorModule), "example", "prometheus-operator-crd")
	return []string{filepath.Join(dir, "monitoring.coreos.com_servicemonitors.yaml"), filepath.Join(dir, "monitoring.coreos.com_podmonitors.yaml")}
}

// schemas returns a directory with one JSON schema per kind, named as kubeconform expects.
func schemas(t testing.TB) string {
	t.Helper()
	return testenv.Cached(t, "kubernetes-schemas", []string{"schemas_test.go", "chart_test.go"}, func(dir string) {
		data, err := os.ReadFile(filepath.Join(module(t, kubernetesModule), "api", "openapi-spec", "swagger.json"))
		if err != nil {
			t.Fatal(err)
		}
		var swagger struct {
			Definitions map[string]map[string]any `json:"definitions"`
		}
		if err := json.Unmarshal(data, &swagger); err != nil {
			t.Fatal(err)
		}
		for name, definition := range swagger.Definitions {
			for _, kind := range list(definition, "x-kubernetes-group-version-kind") {
				needed := map[string]any{}
				collect(swagger.Definitions, name, needed)
				put(t, dir, text(kind, "kind"), text(kind, "group"), text(kind, "version"), map[string]any{
					"$ref": "#/definitions/" + name, "definitions": needed,
				})
			}
		}
		for _, file := range operatorFiles(t) {
			putCustom(t, dir, file)
		}
	})
}

// collect adds a definition and those that it refers to, and makes them strict.
func collect(all map[string]map[string]any, name string, into map[string]any) {
	if into[name] != nil {
		return
	}
	into[name] = strict(all[name])
	if strings.HasSuffix(name, ".Quantity") {
		into[name] = map[string]any{"type": []any{"string", "number"}}
	}
	references(into[name], func(ref string) { collect(all, strings.TrimPrefix(ref, "#/definitions/"), into) })
}

func references(value any, found func(string)) {
	switch v := value.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			found(ref)
		}
		for _, inner := range v {
			references(inner, found)
		}
	case []any:
		for _, inner := range v {
			references(inner, found)
		}
	}
}

// strict forbids additional properties in every object schema that lists its properties.
func strict(value any) any {
	switch v := value.(type) {
	case map[string]any:
		if v["format"] == "int-or-string" || v["x-kubernetes-int-or-string"] == true {
			return map[string]any{"type": []any{"string", "integer"}}
		}
		made := map[string]any{}
		for key, inner := range v {
			made[key] = strict(inner)
		}
		if _, object := v["properties"].(map[string]any); object && v["additionalProperties"] == nil && v["x-kubernetes-preserve-unknown-fields"] != true {
			made["additionalProperties"] = false
		}
		return made
	case []any:
		var made []any
		for _, inner := range v {
			made = append(made, strict(inner))
		}
		return made
	}
	return value
}

func put(t testing.TB, dir, kind, group, version string, schema map[string]any) {
	t.Helper()
	group, _, _ = strings.Cut(group, ".")
	name := strings.Join(strings.FieldsFunc(strings.ToLower(kind+" "+group+" "+version), func(r rune) bool { return r == ' ' }), "-")
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	if err := os.WriteFile(filepath.Join(dir, name+".json"), marshal(t, schema), 0o600); err != nil {
		t.Fatal(err)
	}
}

// putCustom writes the schemas of a CRD file, one per version.
func putCustom(t testing.TB, dir, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var definition map[string]any
	if err := yaml.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	for _, version := range list(definition, "spec", "versions") {
		schema := strict(at(version, "schema", "openAPIV3Schema")).(map[string]any)
		schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
		put(t, dir, text(definition, "spec", "names", "kind"), text(definition, "spec", "group"), text(version, "name"), schema)
	}
}

// The API server's schemas accept everything rendered, and no unknown fields.
func TestSchemas(t *testing.T) {
	kubeconform := tool(t, "kubeconform")
	dir := t.TempDir()
	for name, rendered := range renderings(t) {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(rendered), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	location := filepath.Join(schemas(t), "{{.ResourceKind}}{{.KindSuffix}}.json")
	out, err := exec.Command(kubeconform, "-strict", "-summary", "-schema-location", location, dir, "manifests").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	// It rejects an invalid object.
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(kubeconform, "-strict", "-schema-location", location, bad).CombinedOutput(); err == nil || !strings.Contains(string(out), "prots") {
		t.Errorf("a field that does not exist is valid: %v %s", err, out)
	}
}
