// Package page tests web pages in a real Chromium: the admin page of a running cinch serve, and the pages
// that commands write. It checks figures against /metrics and the servers' own memory, accessibility with
// axe-core, window sizes, both themes, the keyboard, CPU and bytes, and what the page shows when gateways
// and the process itself stop and restart.
package page
