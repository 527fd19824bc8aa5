package kubernetes

import (
	"regexp"
	"strings"
	"testing"
)

// The manifests, for users without Helm, are what the chart renders, without the parts that only Helm needs.
func TestManifests(t *testing.T) {
	for name, m := range map[string]struct {
		says string
		made string
	}{
		"zones": {
			"Gateways for Redis in two zones, behind one Service that keeps clients in their zone.\nTo change: the zones, and the upstream of cinch.yaml.",
			render(t, "cinch", chart, "--values", "testdata/manifests/zones.yaml"),
		},
		"nodes": {
			"A gateway for Redis on each node, behind one Service that leads to that of the client's own node.\nTo change: the upstream of cinch.yaml.",
			render(t, "cinch", chart, "--values", "testdata/manifests/nodes.yaml"),
		},
		"sidecar": {
			"An application with a gateway for Redis as its sidecar. They share a socket.\nTo change: the upstream of cinch.yaml; the containers named shop stand for your application.",
			strings.ReplaceAll(render(t, "shop", shop(t), "--set", "cinch.admin.tokenSecret=cinch-admin"), "shop-cinch", "cinch"),
		},
		"monitoring": {
			"For the Prometheus operator: gateways of zones.yaml or nodes.yaml, and sidecars of sidecar.yaml.",
			only(render(t, "cinch", chart, "--values", "testdata/values/nodes.yaml"), "ServiceMonitor") +
				only(strings.ReplaceAll(render(t, "cinch", chart, "--values", "testdata/values/sidecar.yaml"), "name: cinch\n  namespace", "name: cinch-sidecar\n  namespace"), "PodMonitor"),
		},
	} {
		compare(t, "manifests/"+name+".yaml", plain(m.says, m.made))
	}
}

const secretLine = `The token is for readers of the metrics, and made by you:
  kubectl create secret generic cinch-admin --from-literal=token=$(openssl rand -hex 32)`

var (
	ofHelm     = regexp.MustCompile(`(?m)^( *(app\.kubernetes\.io/managed-by|helm\.sh/chart|namespace): .*|# Source: .*)\n`)
	emptyLines = regexp.MustCompile(`\n\n+`)
)

// plain removes the parts that only Helm needs and puts a description in the first lines.
func plain(says, made string) string {
	says += "\n" + secretLine + "\n\nMade from the chart by go test ./packaging/kubernetes -write. docs/KUBERNETES.md explains it."
	made = emptyLines.ReplaceAllString(ofHelm.ReplaceAllString(made, ""), "\n")
	return strings.ReplaceAll("# "+strings.ReplaceAll(says, "\n", "\n# "), "# \n", "#\n") + "\n" + made
}

// only keeps the documents of one kind.
func only(made, kind string) string {
	var kept strings.Builder
	for _, document := range strings.Split(made, "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			kept.WriteString("---\n" + strings.TrimPrefix(strings.TrimSpace(document), "---\n") + "\n")
		}
	}
	return kept.String()
}
