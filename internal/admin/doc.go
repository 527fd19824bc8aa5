// Package admin serves what operators look at: a page, its JSON, Prometheus
// metrics, health and, when asked for, profiles. It only reads. Its listener is
// apart from the gateways', so that a flood of clients does not hide it.
package admin
