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
// Reading order: plan.go (prints what would be done), look.go (progress), rollout.go (steps, resume and
// abort), replan.go (Patroni has chosen another leader), ordered.go (Patroni's switch-over), member.go (a
// Patroni node), managed.go (a Patroni cell), strategy.go (plain PostgreSQL or Patroni); the parts of a step:
// retire.go (join, keep, destroy), switchover.go, fence.go (the old primary takes no writes), unwind.go (back
// to the old primary), check.go, followers.go (followers that are not nodes), gates.go, libraries.go (files
// that a backup does not copy), latency.go (a mirror's verdict), sample.go (compares row versions), backup.go
// (provision, backup, start), sizes.go (sizes of directories, measured and predicted), catchup.go, task.go
// (the data of a step); clients.go (holds and moves clients), node.go (a server by SQL), host.go (a machine
// by commands), shell.go (quoting for ssh), state.go (the state file), cell.go (the cell's file).
package rollout
