// Package sql looks at the text of PostgreSQL statements: what they are called in a report, whether they only read, and what of their
// answers differs by nature. It is a scanner and no parser: what it is not sure of, it takes for a write.
//
// Reading order: statement.go, judge.go, name.go, scan.go.
package sql
