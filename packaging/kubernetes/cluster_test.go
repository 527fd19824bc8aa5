package kubernetes

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/test/testenv"
)

var apiserver = flag.Bool("apiserver", false, "build a kube-apiserver (minutes), start it with etcd, and install everything there")

const clusterToken = "0123456789abcdef"

// cluster is an API server with its store and nothing else: it accepts or rejects objects, and no pod runs.
type cluster struct {
	t       *testing.T
	address string
	client  *http.Client
	config  string // a kubeconfig
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if !*apiserver {
		t.Skip("takes minutes to build: -apiserver")
	}
	cmd := exec.Command("./apiserver", kubeVersion)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("./apiserver: %v", err)
	}
	dir := t.TempDir()
	tokens, signer := filepath.Join(dir, "tokens"), testenv.NewAuthority(t).Issue(t, "serviceaccounts")
	if err := os.WriteFile(tokens, []byte(clusterToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := testenv.Server(t, testenv.Program(t, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://127.0.0.1:PORT", "--advertise-client-urls", "http://127.0.0.1:PORT",
		"--listen-peer-urls", "http://127.0.0.1:"+strconv.Itoa(testenv.FreePort(t)))
	address := testenv.Server(t, strings.TrimSpace(string(out)), "--etcd-servers", "http://"+etcd, "--secure-port", "PORT", "--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
		"--cert-dir", dir, "--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://test", "--service-account-key-file", signer.Cert, "--service-account-signing-key-file", signer.Key)
	c := &cluster{t: t, address: "https://" + address, config: filepath.Join(dir, "kubeconfig")}
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
		"users: [{name: a, user: {token: %q}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", c.address, clusterToken)
	if err := os.WriteFile(c.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the API server is ready", func() bool { return c.do("GET", "/readyz", nil).code == http.StatusOK })
	return c
}

// answer is a response of the API server, with the warnings that kubectl would print.
type answer struct {
	code     int
	warnings []string
	body     []byte
}

func (c *cluster) do(method, path string, body any) answer {
	c.t.Helper()
	var sent io.Reader
	if body != nil {
		sent = bytes.NewReader(marshal(c.t, body))
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.address+path, sent)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+clusterToken)
	request.Header.Set("Content-Type", map[string]string{"PATCH": "application/apply-patch+yaml"}[method])
	if method == "POST" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return answer{}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header.Values("Warning"), data}
}

// resources maps kinds to their API paths.
var resources = map[string]string{
	"ConfigMap": "/api/v1/%s/configmaps", "Secret": "/api/v1/%s/secrets", "Service": "/api/v1/%s/services", "ServiceAccount": "/api/v1/%s/serviceaccounts",
	"Deployment": "/apis/apps/v1/%s/deployments", "DaemonSet": "/apis/apps/v1/%s/daemonsets", "Job": "/apis/batch/v1/%s/jobs",
	"PodDisruptionBudget":     "/apis/policy/v1/%s/poddisruptionbudgets",
	"HorizontalPodAutoscaler": "/apis/autoscaling/v2/%s/horizontalpodautoscalers",
	"NetworkPolicy":           "/apis/networking.k8s.io/v1/%s/networkpolicies",
	"ServiceMonitor":          "/apis/monitoring.coreos.com/v1/%s/servicemonitors", "PodMonitor": "/apis/monitoring.coreos.com/v1/%s/podmonitors",
}

// apply does what kubectl apply --server-side does. Unknown fields and warnings are errors.
func (c *cluster) apply(where, namespace string, o object, options string) object {
	c.t.Helper()
	path, ok := resources[o.kind()]
	if !ok {
		c.t.Fatalf("%s: what is a %s?", where, o.kind())
	}
	at(o, "metadata").(map[string]any)["namespace"] = namespace
	path = fmt.Sprintf(path, "namespaces/"+namespace) + "/" + o.name() + "?fieldManager=test&fieldValidation=Strict" + options
	a := c.do("PATCH", path, o)
	if a.code/100 != 2 || len(a.warnings) > 0 {
		c.t.Errorf("%s: %s %s: %d %q %s", where, o.kind(), o.name(), a.code, a.warnings, a.body)
	}
	var made object
	_ = json.Unmarshal(a.body, &made)
	return made
}

// namespace creates a namespace that enforces "restricted", the strictest Pod Security Standard.
func (c *cluster) namespace(name string) {
	c.t.Helper()
	labels := map[string]any{}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	a := c.do("POST", "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels}})
	if a.code != http.StatusCreated {
		c.t.Fatalf("namespace %s: %d %s", name, a.code, a.body)
	}
	// In a real cluster a controller creates the account.
	c.apply(name, name, object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}}, "")
}

// operator installs the CRDs of the Prometheus operator.
func (c *cluster) operator() {
	c.t.Helper()
	for _, file := range operatorFiles(c.t) {
		data, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		var definition map[string]any
		if err := yaml.Unmarshal(data, &definition); err != nil {
			c.t.Fatal(err)
		}
		if a := c.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition); a.code != http.StatusCreated {
			c.t.Fatalf("%s: %d %s", file, a.code, a.body)
		}
	}
	for _, kind := range []string{"ServiceMonitor", "PodMonitor"} {
		testenv.Eventually(c.t, kind+" is known", func() bool {
			return c.do("GET", fmt.Sprintf(resources[kind], "namespaces/default"), nil).code == http.StatusOK
		})
	}
}

// pods creates, in a dry run, the pod that a controller would create for w: no controllers run here.
func (c *cluster) pods(where, namespace string, w workload) {
	c.t.Helper()
	template := w.pod.(map[string]any)
	metadata := map[string]any{"generateName": w.name() + "-", "labels": at(template, "metadata", "labels"), "annotations": at(template, "metadata", "annotations")}
	pod := object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
	a := c.do("POST", "/api/v1/namespaces/"+namespace+"/pods?dryRun=All&fieldValidation=Strict", pod)
	if a.code != http.StatusCreated || len(a.warnings) > 0 {
		c.t.Errorf("%s: a pod of %s: %d %q %s", where, w.name(), a.code, a.warnings, a.body)
	}
}

// jobs reads the Jobs back, suspends them and runs fewer of their pods at a time, as operators may. The API server must
// refuse a change of what the pods run: that takes another Job.
func (c *cluster) jobs(namespace, rendered string) {
	c.t.Helper()
	found := 0
	for _, o := range objects(c.t, rendered) {
		if o.kind() != "Job" {
			continue
		}
		found++
		path := fmt.Sprintf(resources["Job"], "namespaces/"+namespace) + "/" + o.name()
		var have object
		if err := json.Unmarshal(c.do("GET", path, nil).body, &have); err != nil {
			c.t.Fatal(err)
		}
		rules := list(have, "spec", "podFailurePolicy", "rules")
		if text(have, "spec", "completionMode") != "Indexed" || len(rules) != 4 || at(have, "spec", "backoffLimitPerIndex") == nil {
			c.t.Errorf("%s is read back as %v", o.name(), have["spec"])
		}
		for change, ok := range map[string]bool{
			`{"suspend": true}`: true, `{"suspend": true, "parallelism": 1}`: true, `{"completions": 7777}`: false,
			`{"template": {"spec": {"terminationGracePeriodSeconds": 1}}}`: false,
		} {
			var spec any
			_ = json.Unmarshal([]byte(change), &spec)
			patch := object{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": o.name()}, "spec": spec}
			if a := c.do("PATCH", path+"?fieldManager=operator&force=true", patch); (a.code == http.StatusOK) != ok {
				c.t.Errorf("%s with %s: %d %s", o.name(), change, a.code, a.body)
			}
		}
	}
	if found != 4 {
		c.t.Errorf("%d Jobs", found)
	}
}

// A real API server accepts all manifests and rendered charts without a warning, and their pods under its
// strictest standard.
func TestCluster(t *testing.T) {
	c := startCluster(t)
	c.operator()
	all := renderings(t)
	for _, name := range []string{"zones", "nodes", "sidecar", "monitoring"} {
		data, err := os.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		all["manifest-"+name] = string(data)
	}
	for name, rendered := range all {
		c.namespace(name)
		for _, o := range objects(t, rendered) {
			c.apply(name+", dry run", name, o, "&dryRun=All")
			first := c.apply(name, name, o, "")
			again := c.apply(name+", again", name, o, "")
			if a, b := at(first, "metadata", "generation"), at(again, "metadata", "generation"); a != b {
				t.Errorf("%s: %s %s changes when it is applied again: %v, %v", name, o.kind(), o.name(), a, b)
			}
		}
		for _, w := range workloads(t, rendered) {
			c.pods(name, name, w)
		}
	}
	c.jobs("jobs", all["jobs"])
	if a := c.do("PATCH", "/api/v1/namespaces/least/services/bad?fieldManager=test&fieldValidation=Strict", object{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "bad"}, "spec": map[string]any{"prots": []any{}},
	}); a.code/100 == 2 {
		t.Error("the API server takes a field that does not exist")
	}
}

// Helm installs, upgrades from one set of values to another, and leaves nothing behind on uninstall.
func TestHelmInstalls(t *testing.T) {
	c := startCluster(t)
	c.operator()
	flags := []string{"--kubeconfig", c.config, "--namespace", "life"}
	c.namespace("life")
	for _, step := range [][]string{
		{"install", "cinch", chart, "--values", "testdata/values/zones.yaml"},
		{"upgrade", "cinch", chart, "--values", "testdata/values/zones.yaml", "--set", "config.memory.budget=128MiB"},
		{"upgrade", "cinch", chart, "--values", "testdata/values/jobs.yaml"},
		{"upgrade", "cinch", chart, "--values", "testdata/values/jobs.yaml", "--set", "pack.workers=3"}, // another Job
		{"upgrade", "cinch", chart, "--values", "testdata/values/nodes.yaml"},
		{"rollback", "cinch", "1"},
		{"install", "shop", shop(t)},
		{"uninstall", "cinch"},
		{"uninstall", "shop"},
	} {
		if out, err := helm(t, append(step, flags...)...); err != nil {
			t.Fatalf("helm %v: %v%s", step, err, out)
		}
	}
	for kind, path := range resources {
		if kind == "ServiceAccount" || kind == "Secret" {
			continue
		}
		var left struct{ Items []object }
		if err := json.Unmarshal(c.do("GET", fmt.Sprintf(path, "namespaces/life"), nil).body, &left); err != nil {
			t.Fatal(err)
		}
		for _, o := range left.Items {
			if o.name() != "kube-root-ca.crt" && at(o, "metadata", "deletionTimestamp") == nil {
				t.Errorf("%s %s is left", kind, o.name())
			}
		}
	}
}
