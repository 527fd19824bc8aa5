// Package arrows is about what uses what. Its tests hold the table of which package may import
// which, and the house rules of what a package may be like inside; docs/ARCHITECTURE.md says why.
// Measure counts what those rules are about, and the command in cmd prints it.
package arrows
