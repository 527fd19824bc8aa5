// Package rollout moves a cell of PostgreSQL, a primary and its standbys, to new nodes, one by one and under load: each gets a base
// backup, catches up as a standby, is checked, and takes the place of the node that it replaces. Standbys go first, the primary last.
//
//	every node     check -> provision -> backup -> start -> catch up -> gates
//	  a standby      -> join -> retire    ----------------------------.
//	  the primary    -> hold -> fence -> promote -> move -> follow ----+-> keep -> destroy -> the next node
//
//	hold      new transactions wait in the gateway, those under way end
//	fence     the old primary is marked as a standby, then shut down cleanly; the new node must have all that it wrote
//	promote   the new node becomes the primary. Before this a roll-out can be aborted, behind it only be gone on with
//	move      clients go on at the new primary
//
// # One primary
//
// The old primary has its standby.signal before it is asked to shut down, so whoever starts it again, a supervisor or an operator,
// starts a standby. The new node is promoted when the old one's pg_controldata says "shut down", its last checkpoint has been replayed there, and the hook for
// fencing has succeeded where there is one. The step that is about to be taken is in the state file, and on the disk, before it is taken; so whoever resumes asks the servers
// what has become of it, and needs no memory of the process that was killed. docs/ROLLOUT.md has the whole argument.
//
// # Patroni
//
// Where Patroni manages the cell, it is the one that promotes, and its lock and watchdog are what keeps a second primary away; the roll-out starts and stops
// no server, only Patroni. Who is the leader is asked before each step, since Patroni may change it at any time.
//
// Reading order: plan.go (what would be done), look.go (how far it is), rollout.go (steps, resumed and aborted), replan.go (Patroni has chosen another leader), ordered.go (Patroni's switch-over), member.go (a node of its), managed.go (its cell), manner.go (by whom steps are taken); the parts of a step: retire.go (join, keep, destroy), switchover.go, fence.go (the old primary takes no writes), unwind.go (the way back), check.go, strangers.go (who follows and is no node), gates.go, libraries.go (what a backup does not copy), latency.go (a mirror's verdict), sample.go (rows
// compared by their versions), backup.go (provision, backup, start), sizes.go (what directories take and will take), catchup.go, task.go (what a step is about); clients.go (who holds and moves them), node.go (a server by SQL), host.go (a machine
// by commands), shell.go (or by ssh), state.go (the file), cell.go (what is asked for).
package rollout
