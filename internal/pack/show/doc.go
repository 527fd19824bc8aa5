// Package show prints what a run of package pack does: for people, or as JSON, one event a line.
//
//	printer.go  events while it goes on
//	table.go    the report at its end, for people
//	json.go     both as JSON, whose names are a contract: fields are added, never renamed
package show
