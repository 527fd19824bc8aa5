// Package sql examines the text of PostgreSQL statements: their name in reports, whether they only read,
// which of their results are nondeterministic, and which passwords they contain. It is a scanner and not a
// parser: a statement that it is not sure of counts as a write.
//
// Reading order: statement.go, analysis.go, nondeterministic_columns.go, place.go (the clause in which a word
// stands), normalize.go (names of statements in reports), settings.go (settings that a text sets),
// passwords.go, scan.go (splits a text into tokens).
package sql
