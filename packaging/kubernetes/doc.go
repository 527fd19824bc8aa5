// Package kubernetes holds the Helm chart (cinch), manifests rendered from it for installing without Helm,
// and tests of both. The tests render the chart with the values in testdata/values. They check the result
// with helm lint, with kubeconform and the API server's own schemas, with cinch, which must accept the
// configuration, and with rules of the project: no rights, probes that can be answered, selectors that
// select, enough time to drain.
//
//	go test ./packaging/kubernetes               what CI runs
//	go test ./packaging/kubernetes -write        writes the manifests anew
//	go test ./packaging/kubernetes -apiserver    builds a kube-apiserver, and installs everything there
package kubernetes
