// Package reference describes every key of the configuration: the tables of docs/CONFIG.md and the JSON schema
// docs/config.schema.json come from here, and tests hold it to the struct that is read.
//
//	reference.go  a row, and the tables by name
//	process.go    keys of the whole process
//	gateways.go   keys of a gateway
//	rules.go      keys of a rule, by protocol
//	markdown.go   tables into a page, between its markers
//	schema.go     the JSON schema: the struct's shape with what the rows say
//	scalars.go    what sizes, shares, times and texts look like in a file
package reference
