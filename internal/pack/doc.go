// Package pack brings values that are already stored to the policy, or back to plain,
// or reads them all to see whether they open. It only orchestrates: a store finds, reads
// and replaces, a Task judges each value, and the walk in between sees to order, limits
// and positions.
//
//	metrics.go, background.go   pass after pass inside a gateway
//	again.go    run after run, while slots of a cluster move
//	forecast.go whether there will be room
//	pack.go     Run
//	walk.go     one database: scan, pages to workers, the position to resume from
//	page.go     one page of keys: read, judge, replace, again where a writer was faster
//	task_seal.go, task_unpack.go, task_verify.go, task.go   judging
//	room.go     whether values that grow have room
//	report.go   what was counted
//	state.go    positions in a file
//	order.go    which position is safe while pages are finished out of order
//	pace.go     rate limits, and backing off from a server that slows down
//	share.go    which of several processes a key is for
//	options.go  what a run is told, and what it tells
//	errors.go   why it ended, and why values were left
//	holder.go   what a process is called beside others
//
// Nothing is replaced that was not first found to open to what it replaces, and no
// replacement goes over a newer write: the store compares and sets in one step.
//
// Memory is bounded by Parallel pages a node: Step keys each, of which the store reads
// about 4 MiB at a time (or one value), plus as much that waits to be replaced.
package pack
