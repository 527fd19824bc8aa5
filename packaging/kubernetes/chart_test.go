package kubernetes

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/test/testenv"
)

const (
	root  = "../.."
	chart = "cinch"
	// kubeVersion is the Kubernetes version that is rendered for and whose schemas validate the result.
	// kubernetesModule has the same version.
	kubeVersion = "1.34.2"
)

var write = flag.Bool("write", false, "write the manifests anew")

var toolsOnce = sync.OnceValues(func() (string, error) {
	cmd := exec.Command(root+"/packaging/tools", "helm", "kubeconform")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// tool returns the path of helm or kubeconform, and builds the program if it is missing.
func tool(t testing.TB, name string) string {
	t.Helper()
	testenv.NeedsPrograms(t)
	dir, err := toolsOnce()
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("packaging/tools %s: %v", name, err)
	case err != nil:
		t.Skipf("packaging/tools %s: %v", name, err)
	}
	return filepath.Join(dir, name)
}

// helm runs helm with a temporary home directory and returns its standard output.
func helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(tool(t, "helm"), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", errors.New(said.String() + string(out))
	}
	return string(out), nil
}

// render returns the YAML that the chart renders with the given arguments.
func render(t testing.TB, release, chart string, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", release, chart, "--namespace", "data", "--kube-version", kubeVersion}, args...)...)
	if err != nil {
		t.Fatalf("helm template %s %v: %v", chart, args, err)
	}
	return out
}

// variants returns the files in testdata/values by name.
func variants(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files of values: %v", len(files), err)
	}
	found := map[string]string{}
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = file
	}
	return found
}

// shop returns the directory of an application's chart that has Cinch's chart as a dependency.
func shop(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/shop")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir+"/charts/cinch", os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	return dir
}

var rendered struct {
	sync.Mutex
	all map[string]string
}

// renderings returns everything that the tests check: the chart rendered with each file of values, and the
// application with its sidecar. Callers may add to the map. With -short it reads the manifests in the
// repository, which TestManifests compares with what helm renders.
func renderings(t testing.TB) map[string]string {
	t.Helper()
	if testing.Short() {
		all := map[string]string{}
		for name, file := range map[string]string{"shop": "sidecar", "zones": "zones", "nodes": "nodes"} {
			data, err := os.ReadFile("manifests/" + file + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(data)
		}
		return all
	}
	rendered.Lock()
	defer rendered.Unlock()
	if rendered.all != nil {
		return maps.Clone(rendered.all)
	}
	all := map[string]string{"shop": render(t, "shop", shop(t))}
	for name, file := range variants(t) {
		all[name] = render(t, "cinch", chart, "--values", file)
	}
	rendered.all = all
	return maps.Clone(all)
}

// object is one rendered YAML document.
type object map[string]any

func (o object) kind() string { name, _ := o["kind"].(string); return name }

func (o object) name() string { return text(o, "metadata", "name") }

func objects(t testing.TB, rendered string) []object {
	t.Helper()
	var found []object
	d := yaml.NewDecoder(strings.NewReader(rendered))
	for {
		var o map[string]any // not object: nested maps get the same type
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, rendered)
		}
		if o != nil {
			found = append(found, o)
		}
	}
}

// at returns the value under a path of keys, or nil if there is none.
func at(value any, keys ...string) any {
	for _, key := range keys {
		switch m := value.(type) {
		case object:
			value = m[key]
		case map[string]any:
			value = m[key]
		default:
			return nil
		}
	}
	return value
}

func text(value any, keys ...string) string { s, _ := at(value, keys...).(string); return s }

func number(value any, keys ...string) int { n, _ := at(value, keys...).(int); return n }

func list(value any, keys ...string) []any { l, _ := at(value, keys...).([]any); return l }

func TestLint(t *testing.T) {
	for name, file := range variants(t) {
		if out, err := helm(t, "lint", "--strict", "--kube-version", kubeVersion, chart, "--values", file); err != nil {
			t.Errorf("%s: %v%s", name, err, out)
		}
	}
	if out, err := helm(t, "lint", "--strict", shop(t)); err != nil {
		t.Errorf("shop: %v%s", err, out)
	}
}

// Values that can't work in pods fail before anything is installed, with an error that says what to do.
func TestRefused(t *testing.T) {
	const gateway = "config.gateways[0]={name: a, protocol: redis, listen: ':6380', upstream: 'redis://redis:6379'}"
	for _, c := range []struct {
		says string
		set  []string
	}{
		{"config.gateways is empty", nil},
		{"where other pods can't reach it", []string{"config.gateways[0].listen=127.0.0.1:6380"}},
		{"where other pods can't reach it", []string{"config.gateways[0].listen=unix:/run/cinch/a.sock", "topology=nodes"}},
		{"a ConfigMap is no place", []string{"config.gateways[0].upstream=redis://cinch:secret@redis:6379"}},
		{"a ConfigMap is no place", []string{"config.gateways[0].upstream=redis+sentinel://s1/m?sentinel_password=secret"}},
		{"serviceMonitor needs admin.tokenSecret", []string{"serviceMonitor.enabled=true"}},
		{"a sidecar shares the network", []string{"topology=sidecar", "networkPolicy.enabled=true"}},
		{"drain_delay", []string{"config.drain_delay=5s"}},
		{"listen", []string{"config.admin.listen=off"}},
		{"lisen", []string{"config.gateways[0].lisen=:1"}},
		{"gatewys", []string{"config.gatewys=1"}},
		{"replica", []string{"replica=3"}},
		{"passwords", []string{"secrets.passwords=x"}},
		{"topology", []string{"topology=zone"}},
	} {
		args := []string{"template", "cinch", chart, "--kube-version", kubeVersion}
		if c.set != nil {
			args = append(args, "--set-json", asJSON(t, gateway))
		}
		for _, set := range c.set {
			args = append(args, "--set", set)
		}
		if out, err := helm(t, args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: want an error that says %q: %v\n%.300s", c.set, c.says, err, out)
		}
	}
}

// asJSON converts key={yaml} to key={json}.
func asJSON(t *testing.T, set string) string {
	t.Helper()
	key, value, _ := strings.Cut(set, "=")
	var parsed any
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil {
		t.Fatal(err)
	}
	return key + "=" + string(marshal(t, parsed))
}

// Every object has a name, and no object is rendered twice.
func TestNames(t *testing.T) {
	for name, rendered := range renderings(t) {
		seen := map[string]bool{}
		for _, o := range objects(t, rendered) {
			id := o.kind() + " " + o.name()
			if o.name() == "" || seen[id] {
				t.Errorf("%s: %s has no name, or is there twice", name, id)
			}
			seen[id] = true
		}
		if len(seen) == 0 {
			t.Errorf("%s: nothing is rendered", name)
		}
	}
}
