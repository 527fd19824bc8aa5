// Package metricstest compares the metrics of a package with those that docs/METRICS.md lists. It stands apart from package
// testenv because it needs Prometheus's client.
package metricstest
