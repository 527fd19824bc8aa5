// Package rollout moves a cell of PostgreSQL, a primary and its standbys, to new nodes, one by one and under
// load: each new node gets a base backup, catches up as a standby, is checked, and replaces its old node.
// Standbys go first, the primary last.
//
//	every node     check -> provision -> backup -> start -> catch up -> gates
//	  a standby      -> join -> retire    ----------------------------.
//	  the primary    -> hold -> fence -> promote -> move -> follow ----+-> keep -> destroy -> the next node
//
//	hold      new transactions wait in the gateway, open ones end
//	fence     the old primary is marked as a standby and shut down cleanly; the new node must have all its WAL
//	promote   the new node becomes the primary. A roll-out can be aborted before this step, not after it
//	move      clients continue at the new primary
//
// # One primary
//
// The old primary gets its standby.signal before it is shut down, so if a supervisor or an operator starts it
// again it starts as a standby. The new node is promoted when the old one's pg_controldata says "shut down",
// the new node has replayed its last checkpoint, and the fence hook, if any, has succeeded. Before a step is
// taken it is in the state file, on the disk. So a resumed roll-out asks the servers what has become of the
// step, and needs no memory of the process that was killed. docs/ROLLOUT.md has the whole argument.
//
// # Patroni
//
// If Patroni manages the cell, Patroni promotes, and its lock and watchdog prevent a second primary; the
// roll-out starts and stops only Patroni, no server. It asks who the leader is before each step, because
// Patroni may change it at any time.
//
// Reading order:
//
//	plan.go                 prints what would be done
//	status.go               prints the progress
//	rollout.go              steps, resume and abort
//	leader_change.go        continues after Patroni has chosen another leader
//	managed_switchover.go   Patroni's switch-over
//	member.go               a Patroni node
//	managed.go              a Patroni cell
//	strategy.go             plain PostgreSQL or Patroni
//
// The parts of a step:
//
//	retire.go               join, keep, destroy
//	switchover.go           the change of the primary
//	fence.go                the old primary takes no writes
//	unwind.go               back to the old primary
//	check.go                problems that prevent a roll-out
//	unknown_followers.go    followers that are not nodes
//	gates.go                the conditions for a new node to replace the old one
//	libraries.go            files that a backup does not copy
//	shadow_gate.go          a mirror's verdict
//	compare_rows.go         compares row versions
//	newnode.go              provision, backup, start
//	sizes.go                sizes of directories, measured and predicted
//	catchup.go              waits until the new node is close to the primary
//	task.go                 the data of a step
//
// What the steps use:
//
//	clients.go              holds and moves clients
//	node.go                 a server: how it is reached, queries
//	host.go                 a machine by commands, here or by ssh
//	state.go                the state file
//	cell.go            the cell's file
package rollout
