// Package reference describes every key of the configuration. The tables of docs/CONFIG.md and the JSON schema
// docs/config.schema.json are generated from it. Tests compare it with the struct that package config reads.
//
//	reference.go  a row, and the tables by name
//	process.go    keys of the whole process
//	gateways.go   keys of a gateway
//	rules.go      keys of a rule, by protocol
//	markdown.go   inserting tables into a page, between its markers
//	schema.go     the JSON schema: the struct's shape with the rows' texts
//	helmvalues.go the JSON schema of a Helm chart's values
//	scalars.go    the forms of sizes, shares, times and texts in a file
package reference
