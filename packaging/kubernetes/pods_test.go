package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// workload is an object that creates pods.
type workload struct {
	object
	pod any // its template
}

func workloads(t testing.TB, rendered string) []workload {
	t.Helper()
	var found []workload
	for _, o := range objects(t, rendered) {
		switch o.kind() {
		case "Deployment", "DaemonSet", "Job":
			found = append(found, workload{o, at(o, "spec", "template")})
		}
	}
	return found
}

// gateways returns the workloads that are no Jobs.
func gateways(t testing.TB, rendered string) []workload {
	t.Helper()
	return slices.DeleteFunc(workloads(t, rendered), func(w workload) bool { return w.kind() == "Job" })
}

// gateway returns the container that runs Cinch, in a pod of its own or beside an application.
func (w workload) gateway() any {
	for _, key := range []string{"containers", "initContainers"} {
		for _, c := range list(w.pod, "spec", key) {
			if text(c, "name") == "cinch" {
				return c
			}
		}
	}
	return nil
}

// Gateways' pods have no rights that they don't need.
func TestPodsHaveNoRights(t *testing.T) {
	for name, rendered := range renderings(t) {
		for _, w := range workloads(t, rendered) {
			c := w.gateway()
			for what, ok := range map[string]bool{
				"no token of a service account": at(w.pod, "spec", "automountServiceAccountToken") == false,
				"no links to services":          w.name() == "shop" || at(w.pod, "spec", "enableServiceLinks") == false,
				"no root":                       at(c, "securityContext", "runAsNonRoot") == true && number(c, "securityContext", "runAsUser") > 0,
				"a root that can't be written":  at(c, "securityContext", "readOnlyRootFilesystem") == true,
				"no escalation":                 at(c, "securityContext", "allowPrivilegeEscalation") == false,
				"no capabilities":               slices.Equal(list(c, "securityContext", "capabilities", "drop"), []any{"ALL"}),
				"seccomp":                       text(c, "securityContext", "seccompProfile", "type") == "RuntimeDefault",
				"a group that reads Secrets":    number(w.pod, "spec", "securityContext", "fsGroup") > 0,
				"a limit of memory":             text(c, "resources", "limits", "memory") != "",
				"a request of CPU":              text(c, "resources", "requests", "cpu") != "",
			} {
				if !ok {
					t.Errorf("%s: %s %s: not so: %s", name, w.kind(), w.name(), what)
				}
			}
			for _, v := range list(w.pod, "spec", "volumes") {
				if mode, ok := at(v, "secret", "defaultMode").(int); at(v, "secret") != nil && (!ok || mode&0o007 != 0) {
					t.Errorf("%s: everybody may read the Secret of %s", name, text(v, "name"))
				}
				if at(v, "hostPath") != nil {
					t.Errorf("%s: %s is of the node", name, text(v, "name"))
				}
			}
		}
	}
}

// parsed holds the parts of the configuration that the tests need.
type parsed struct {
	Admin struct {
		Listen    string `yaml:"listen"`
		TokenFile string `yaml:"token_file"`
		TLS       any    `yaml:"tls"`
	} `yaml:"admin"`
	DrainDelay   string `yaml:"drain_delay"`
	DrainTimeout string `yaml:"drain_timeout"`
	Gateways     []struct {
		Listen string `yaml:"listen"`
	} `yaml:"gateways"`
}

func parse(t testing.TB, rendered string) parsed {
	t.Helper()
	var p parsed
	if err := yaml.Unmarshal([]byte(configuration(t, rendered)), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Probes request paths that need no token, on the admin page's port, by its protocol.
func TestProbes(t *testing.T) {
	for name, rendered := range renderings(t) {
		p := parse(t, rendered)
		scheme := map[bool]string{false: "", true: "HTTPS"}[p.Admin.TLS != nil]
		for _, w := range gateways(t, rendered) {
			ready := "/readyz"
			if name == "shop" {
				ready = "/healthz" // the application decides what it means that the server is down
			}
			for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": ready} {
				get := at(w.gateway(), probe, "httpGet")
				if fmt.Sprintf(":%d", number(get, "port")) != p.Admin.Listen || text(get, "scheme") != scheme || text(get, "path") != path {
					t.Errorf("%s: %s asks %v, and the admin page is at %s (%v)", name, probe, get, p.Admin.Listen, p.Admin.TLS)
				}
			}
		}
	}
}

// The pod's grace period is longer than the gateway's drain.
func TestTimeToDrain(t *testing.T) {
	for name, rendered := range renderings(t) {
		p := parse(t, rendered)
		var takes time.Duration
		for _, s := range []string{p.DrainDelay, p.DrainTimeout} {
			d, err := time.ParseDuration(s)
			if err != nil {
				t.Fatal(err)
			}
			takes += d
		}
		for _, w := range gateways(t, rendered) {
			has := number(w.pod, "spec", "terminationGracePeriodSeconds")
			if has == 0 {
				has = 30 // the default, and an application may have reasons for it
			}
			if name != "shop" && time.Duration(has)*time.Second < takes+5*time.Second {
				t.Errorf("%s: the pod is killed after %d s, a drain takes %v", name, has, takes)
			}
		}
	}
}

// Selectors of pods and of Services select the intended ones.
func TestSelectors(t *testing.T) {
	selectors := map[string][]string{
		"Deployment": {"spec", "selector", "matchLabels"}, "DaemonSet": {"spec", "selector", "matchLabels"},
		"PodDisruptionBudget": {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"},
		"NetworkPolicy": {"spec", "podSelector", "matchLabels"}, "PodMonitor": {"spec", "selector", "matchLabels"},
		"ServiceMonitor": {"spec", "selector", "matchLabels"},
	}
	// Kinds that select all pods. The others select one pod, or one Service.
	all := map[string]bool{"Service": true, "NetworkPolicy": true, "PodMonitor": true}
	for name, rendered := range renderings(t) {
		pods, services, jobs := []map[string]any{}, []map[string]any{}, []map[string]any{}
		for _, o := range objects(t, rendered) {
			if o.kind() == "Service" {
				services = append(services, at(o, "metadata", "labels").(map[string]any))
			}
		}
		for _, w := range workloads(t, rendered) {
			labels := at(w.pod, "metadata", "labels").(map[string]any)
			if w.kind() == "Job" {
				jobs = append(jobs, labels)
			} else {
				pods = append(pods, labels)
			}
		}
		for _, o := range objects(t, rendered) {
			path, selecting := selectors[o.kind()]
			if !selecting || name == "sidecar" {
				continue
			}
			jobPods := selected(at(o, path...), jobs)
			if o.kind() == "NetworkPolicy" && o.name() == "cinch-job" {
				if jobPods != len(jobs) || selected(at(o, path...), pods) > 0 {
					t.Errorf("%s: the policy of Jobs selects other pods", name)
				}
				continue
			}
			if jobPods > 0 {
				t.Errorf("%s: %s %s selects pods of Jobs", name, o.kind(), o.name())
			}
			want, of := 1, pods
			if o.kind() == "ServiceMonitor" {
				of = services
			}
			if all[o.kind()] {
				want = len(pods)
			}
			if got := selected(at(o, path...), of); got != want {
				t.Errorf("%s: %s %s selects %d, not %d", name, o.kind(), o.name(), got, want)
			}
		}
	}
}

func selected(selector any, labels []map[string]any) int {
	want, _ := selector.(map[string]any)
	count := 0
	for _, have := range labels {
		matches := len(want) > 0
		for k, v := range want {
			matches = matches && have[k] == v
		}
		if matches {
			count++
		}
	}
	return count
}

// The container, the Service and the network policy open exactly the ports that a gateway listens on.
func TestPorts(t *testing.T) {
	for name, rendered := range renderings(t) {
		want := map[int]bool{}
		for _, g := range parse(t, rendered).Gateways {
			var port int
			if _, err := fmt.Sscanf(g.Listen[strings.LastIndex(g.Listen, ":")+1:], "%d", &port); err == nil && !strings.HasPrefix(g.Listen, "unix:") {
				want[port] = true
			}
		}
		if name == "jobs" { // nodes of a cluster
			want[7001], want[7002] = true, true
		}
		if name == "protocols" { // nodes of a cluster, a Sentinel and its nodes
			for _, port := range []int{7001, 7002, 7003, 7101, 7102, 26380} {
				want[port] = true
			}
		}
		for _, o := range objects(t, rendered) {
			if o.kind() == "Service" && text(o, "spec", "clusterIP") != "None" {
				samePorts(t, name+": Service", list(o, "spec", "ports"), "port", want)
			}
			if o.kind() == "NetworkPolicy" && name != "shop" && o.name() != "cinch-job" {
				samePorts(t, name+": NetworkPolicy", list(list(o, "spec", "ingress")[0], "ports"), "port", want)
			}
		}
		want[9470] = true
		for _, w := range gateways(t, rendered) {
			samePorts(t, name+": "+w.name(), list(w.gateway(), "ports"), "containerPort", want)
		}
	}
}

func samePorts(t *testing.T, where string, ports []any, key string, want map[int]bool) {
	t.Helper()
	have := map[int]bool{}
	for _, p := range ports {
		have[number(p, key)] = true
	}
	if !maps.Equal(have, want) {
		t.Errorf("%s has ports %v, not %v", where, slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
	}
}

// Each topology routes as documented.
func TestRouting(t *testing.T) {
	all := renderings(t)
	for _, o := range objects(t, all["nodes"]) {
		if o.kind() == "Service" && o.name() == "cinch" && text(o, "spec", "internalTrafficPolicy") != "Local" {
			t.Error("nodes: the Service leads to other nodes")
		}
		if o.kind() == "DaemonSet" && (number(o, "spec", "updateStrategy", "rollingUpdate", "maxSurge") != 1 || number(o, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable") != 0) {
			t.Error("nodes: an update leaves nodes without a gateway")
		}
	}
	for _, o := range objects(t, all["zones"]) {
		if o.kind() == "Service" && o.name() == "cinch" && text(o, "spec", "trafficDistribution") != "PreferClose" {
			t.Error("zones: the Service does not prefer its zone")
		}
	}
	for _, w := range workloads(t, all["zones"]) {
		zone := strings.TrimPrefix(w.name(), "cinch-")
		terms := list(w.pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		want := 2 // in the values
		if testing.Short() {
			want = 1 // in the manifest
		}
		if len(terms) != want {
			t.Fatalf("%s has %d terms", w.name(), len(terms))
		}
		for _, term := range terms {
			if !slices.ContainsFunc(list(term, "matchExpressions"), func(e any) bool {
				return text(e, "key") == "topology.kubernetes.io/zone" && slices.Equal(list(e, "values"), []any{zone})
			}) {
				t.Errorf("%s may run in other zones: %v", w.name(), term)
			}
		}
	}
	if text(workloads(t, all["shop"])[0].gateway(), "restartPolicy") != "Always" {
		t.Error("shop: the sidecar is an init container that never ends")
	}
}

// A changed configuration changes the pod template, so that pods are replaced.
func TestChecksum(t *testing.T) {
	sum := func(args ...string) string {
		w := workloads(t, render(t, "cinch", chart, append([]string{"--values", "testdata/values/nodes.yaml"}, args...)...))
		return text(w[0].pod, "metadata", "annotations", "checksum/cinch-config")
	}
	if a, b := sum(), sum(); a == "" || a != b {
		t.Errorf("the checksum of one configuration is %q and %q", a, b)
	}
	if sum() == sum("--set", "drain.graceSeconds=3") {
		t.Error("the checksum does not depend on the configuration")
	}
}
