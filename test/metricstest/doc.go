// Package metricstest compares the metrics of a package with the list in docs/METRICS.md. It is separate
// from package testenv because it needs Prometheus's client.
package metricstest
