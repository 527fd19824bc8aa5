// Package page drives what people see in a browser (the admin page of a running cinch serve, and the pages that commands write)
// in real Chromium: figures against /metrics and the servers' own memory, accessibility by axe-core, sizes, both themes, the
// keyboard, CPU and bytes, and what the page says when gateways and the process itself come and go.
package page
