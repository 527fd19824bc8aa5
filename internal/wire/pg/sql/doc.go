// Package sql looks at the text of PostgreSQL statements: what they are called in a report, whether they only read, what of their
// answers differs by nature, and which passwords are in them. It is a scanner and no parser: what it is not sure of, it takes for a write.
//
// Reading order: statement.go, judge.go, sets.go, place.go, name.go, passwords.go, scan.go.
package sql
