// Package archtest checks the dependencies between packages. Its tests hold the table of allowed imports, and
// the house rules for the inside of a package; docs/ARCHITECTURE.md explains them. Measure computes the
// figures of these rules, and the command in cmd prints them.
package archtest
