// Package sql examines the text of PostgreSQL statements: their name in reports, whether they only read,
// which of their results are nondeterministic, and which passwords they contain. It is a scanner and not a
// parser: a statement that it is not sure of counts as a write.
//
// Reading order: statement.go, analysis.go, sets.go, place.go, name.go, passwords.go, scan.go.
package sql
