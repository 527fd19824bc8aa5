package kubernetes

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/internal/config/reference"
	"github.com/cinch-layer/cinch/test/testenv"
)

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// configuration returns the cinch.yaml in the rendered objects.
func configuration(t testing.TB, rendered string) string {
	t.Helper()
	for _, o := range objects(t, rendered) {
		for _, key := range []string{"data", "stringData"} {
			if config := text(o, key, "cinch.yaml"); config != "" {
				return config
			}
		}
	}
	t.Fatalf("no cinch.yaml in\n%s", rendered)
	return ""
}

// cinch config check accepts the configuration that pods get.
func TestConfigurationsAreAccepted(t *testing.T) {
	cinch := testenv.Cinch(t)
	for name, rendered := range renderings(t) {
		dir := secrets(t)
		config := strings.NewReplacer("/secrets/", dir+"/secrets/", "/run/cinch/", dir+"/").Replace(configuration(t, rendered))
		file := filepath.Join(dir, "cinch.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(cinch, "config", "check", file)
		cmd.Env = append(os.Environ(), "CINCH_PASSWORD_FILE="+dir+"/secrets/passwords/passwords")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, config)
		}
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secrets creates a directory with the files that the values in testdata name.
func secrets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	authority := testenv.NewAuthority(t)
	issued := authority.Issue(t, "cinch")
	put := func(name string, content []byte) {
		file := filepath.Join(dir, "secrets", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{
		"tls/tls.crt": issued.Cert, "tls/tls.key": issued.Key, "tls/ca.crt": authority.File, "upstream/ca.crt": authority.File,
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(name, content)
	}
	put("admin/token", []byte("0123456789abcdef0123456789abcdef"))
	put("peer/key", []byte("0123456789abcdef0123456789abcdef\n"))
	put("passwords/passwords", []byte("redis:6379:cinch:secret\n"))
	trained, err := os.ReadFile(root + "/envelope/testdata/vectors/dictionaries/trained.dict")
	if err != nil {
		t.Fatal(err)
	}
	put("dicts/orders.dict", trained)
	return dir
}

// The schema of `config` in values.schema.json matches that of the configuration, without the keys that the
// chart sets.
func TestSchemaOfValues(t *testing.T) {
	const file = chart + "/values.schema.json"
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.Values(have)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not up to date: go run ./packaging/reference", file)
	}
}

// compare fails if a file's content differs from want. With -write it writes the file first.
func compare(t *testing.T, file, want string) {
	t.Helper()
	if *write {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not up to date: go test ./packaging/kubernetes -write", file)
	}
}

// The chart's version and appVersion are the release's version.
func TestVersion(t *testing.T) {
	gomod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`github.com/cinch-layer/cinch/codec v(\S+)`).FindSubmatch(gomod)
	if m == nil {
		t.Fatal("go.mod does not name the release")
	}
	data, err := os.ReadFile(chart + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if want := string(m[1]); c.Version != want || c.AppVersion != want {
		t.Errorf("Chart.yaml has version %q and appVersion %q, the release is %q", c.Version, c.AppVersion, want)
	}
}
