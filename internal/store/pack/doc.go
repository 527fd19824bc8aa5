// Package pack compresses stored values by the policy, decompresses them again, or verifies that they open.
// It only coordinates: a store finds, reads and replaces values, a Task decides about each one, and the walk
// handles order, limits and positions.
//
//	metrics.go, background.go, pausecache.go  repeated passes inside a gateway
//	untilstable.go  repeating runs while slots of a cluster move
//	memoryforecast.go  estimating whether the server's memory will suffice
//	pack.go      Run: its start and end
//	walk.go      one database: its scan, pages to workers, the position to resume from
//	page.go      one page: read, decide, replace, and retry values that a client changed
//	task.go, task_seal.go, task_foreign.go, task_unpack.go, task_verify.go  deciding about a value
//	pace.go      when to rest: rate limits of the run, a node that slows down, a run that is paused
//	memoryguard.go  whether the server has memory for values that grow
//	report.go    counts, and reporting progress
//	state.go     positions and counts in a file
//	sharedrun.go what several workers have done, from their files
//	options.go   options and events of a run
//	errors.go    why a run ended, and why values were left unchanged; panics as errors
//
// No value is replaced before its replacement was verified against it. No replacement overwrites a newer
// write: the store compares and sets in one step.
//
// Memory is limited to Parallel pages for each node. A page is Step keys, of which the store reads about 4
// MiB at a time (or one value), plus as much again waiting to be replaced.
package pack
