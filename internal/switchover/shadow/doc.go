// Package shadow mirrors live traffic onto two targets, a control with the old configuration and a test with
// the new one, and reports whether the test is as fast, answers alike and holds the same data. Production
// answers the client and never waits for the mirror.
//
//	client <-> proxy <-> production
//	              | tap: a bounded queue of the bytes that went by, off the request path
//	           mirror: one goroutine; bytes -> operations, in the order of their completion
//	              | order: what an operation has to wait for
//	           connections to control and test: one for each connection of a client
//	              |
//	           compare: answers, latencies, batches -> package verdict
//
// # The order
//
// A piece is queued before it is passed on, so a reply is in the queue before its client can act on it: a request that
// a program sends because of an answer always comes later in the queue. One goroutine of the mirror reads the queue and
// numbers operations by their completion in production. An operation touches a key, a part of a key or, if that is not
// known, everything. It is sent to a target when earlier operations of other connections that conflict with it (both
// touch the same key, and at least one writes) are done there. Operations of one connection are sent in their order. So
// both targets execute conflicting operations in the same order, each at its own speed.
//
// One race remains: two conflicting operations that ran at the same time in production may be numbered in the opposite
// order of their execution, if the server sends the second one's answer first. Both targets then agree with each other,
// but not with production. An operation that waits on a target for a later one (for a lock, or an element to pop) would
// wait forever, so operations behind it wait for it no longer than Config.Wait.
//
// A Conn that can undo an operation compares the target's answer with production's. If production executed a
// concurrent operation first, the Conn undoes its own and has that one sent first (Target.Ahead).
//
// Reading order: recorder.go; run.go, replay.go, check.go, selftest.go, candidateprocess.go, state.go;
// output: html.go, text.go, report.go, next.go, distribution.go; data.go; usagemeter.go, queryplans.go; the
// mirror: proxy.go, mirror.go, heldback.go, connstate.go, tap.go, budget.go, order.go, targetconn.go,
// waitturn.go, sendahead.go, pipeline.go, compare.go, target.go, latencies.go, counter.go, recentmap.go,
// config.go, operation.go, protocol.go (the interfaces that a protocol implements).
package shadow
