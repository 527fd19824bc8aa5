// Package admin serves the pages for operators: a page, its JSON, Prometheus metrics, health and, if
// configured, profiles. Apart from actions the pages change nothing. The listener is separate from the gateways', so
// that a flood of clients does not make it unreachable.
package admin
