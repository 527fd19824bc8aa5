// Package pack brings values that are already stored to the policy, or back to plain,
// or reads them all to see whether they open. It only orchestrates: a store finds, reads
// and replaces, a Task judges each value, and the walk in between sees to order, limits
// and positions.
//
//	metrics.go, background.go, paused.go  pass after pass inside a gateway
//	again.go     run after run, while slots of a cluster move
//	forecast.go  whether there will be room
//	pack.go      Run: how it begins and ends
//	walk.go      one database from the scan to the write: pages to workers; read, judge, replace, again where a
//	             client was faster; the position to resume from
//	task.go, task_seal.go, task_foreign.go, task_unpack.go, task_verify.go  judging a value
//	pace.go      when to rest: rate limits of the run, a node that slows down, an operator who holds the run
//	room.go      whether values that grow have room
//	report.go    what was counted, and telling of it while the run goes on
//	state.go     positions in a file
//	options.go   what a run is told, and what it tells
//	errors.go    why it ended, and why values were left; panics as errors
//	holder.go    what a process is called beside others
//
// Nothing is replaced that was not first found to open to what it replaces, and no
// replacement goes over a newer write: the store compares and sets in one step.
//
// Memory is bounded by Parallel pages a node: Step keys each, of which the store reads
// about 4 MiB at a time (or one value), plus as much that waits to be replaced.
package pack
