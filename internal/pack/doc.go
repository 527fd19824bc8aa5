// Package pack brings values that are already stored to the policy, or back to plain,
// or reads them all to see whether they open. It only orchestrates: a store finds, reads
// and replaces, a Task judges each value, and the walk in between sees to order, limits
// and positions.
//
//	pack.go    Options and Run
//	walk.go    one database: scan, pages to workers, the position to resume from
//	page.go    one page of keys: read, judge, replace, again where a writer was faster
//	order.go   which position is safe while pages are finished out of order
//	pace.go    rate limits, and backing off from a server that slows down
//	state.go   positions in a file
//	report.go  what was counted
//	background.go, metrics.go   pass after pass inside a gateway
//	task.go, task_seal.go, task_unpack.go, task_verify.go   judging
//
// Nothing is replaced that was not first found to open to what it replaces, and no
// replacement goes over a newer write: the store compares and sets in one step.
//
// Memory is bounded by Parallel pages a node: Step keys each, of which the store reads
// about 4 MiB at a time (or one value), plus as much that waits to be replaced.
package pack
