// Package output prints the events of a run of package pack: for people, or as JSON, one event a line.
//
//	printer.go  events during the run
//	table.go    the report at its end, for people
//	json.go     both as JSON, whose names are a contract: fields are added, never renamed
package output
