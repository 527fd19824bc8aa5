// Package shadow mirrors live traffic onto two targets, a control with the old configuration and
// a test with the new one, and says whether the test is as fast, answers alike and holds the same
// data. Production answers the client and never waits for the mirror.
//
//	client <-> passage <-> production
//	              | tap: a bounded queue of the bytes that went by, off the request path
//	           mirror: one goroutine; bytes -> operations, in the order of their completion
//	              | order: what an operation has to wait for
//	           lanes of control, lanes of test: a connection for each connection of a client
//	              |
//	           compare: answers, latencies, batches -> package verdict
//
// # The order
//
// Pieces are queued before they are passed on, so a reply is in the queue before its client can
// act on it: what a program does because of an answer always comes later. The mirror reads the
// queue in one goroutine and numbers operations by their completion in production. An operation
// that touches something (a key, or a part of it; everything, if that is not known) is sent to a target
// when the operations of other connections before it that touch the same, one of the two writing, are
// done there. Operations of one connection are sent in their order. So both targets carry
// conflicting operations out in the same order, each at its own speed.
//
// One race is left: two conflicting operations that were under way at the same time in production
// may be numbered the other way round than the server carried them out, when the server sends the
// second one's answer first. Both targets then agree with each other, not with production. And an operation
// that waits on a target for one that comes after it (for a lock, or an element to pop) would wait for good: so what comes behind
// such an operation waits for it no longer than Config.Wait.
//
// A Conn that can undo an operation may find by production's answer that another, which was under way with it, came first there, and have that go
// ahead (Target.Ahead).
//
// Reading order: recorder.go; run.go, replay.go, check.go, selftest.go, candidate.go, state.go; what comes out: html.go, text.go, report.go, next.go, spread.go; data.go; meter.go, explain.go; the mirror:
// passage.go, mirror.go, woken.go, connstate.go, tap.go, budget.go, order.go, lane.go, wait.go, ahead.go, plant.go, compare.go, target.go, batch.go, counts.go,
// config.go, operation.go.
package shadow
