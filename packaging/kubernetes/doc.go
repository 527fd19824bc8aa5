// Package kubernetes holds the Helm chart (cinch), what it renders for those who have no Helm (manifests), and tests of both. The chart is
// rendered for the values in testdata/values and judged by helm lint, by kubeconform with the API server's own schemas, by cinch itself, which has to
// accept the configuration, and by rules of ours: no rights, probes that can be answered, selectors that select, time for the drain.
//
//	go test ./packaging/kubernetes               what CI runs
//	go test ./packaging/kubernetes -write        writes the manifests anew
//	go test ./packaging/kubernetes -apiserver    builds a kube-apiserver, and installs everything there
package kubernetes
