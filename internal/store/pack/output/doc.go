// Package output prints the events of a run of package pack: for people, or as JSON, one event a line.
//
//	printer.go  events during the run
//	table.go    the report at its end, for people
//	sharedrun.go  the progress of several workers, from their state files
//	json.go     both as JSON, whose names are a contract: fields are added, never renamed
package output
