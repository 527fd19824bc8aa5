// Package survive holds tests of what may happen to the dictionaries in a store: eviction,
// flushes, failover with lag, restored backups, new nodes, values that move elsewhere. What
// is asserted is always that somebody who has never seen a dictionary opens every value.
package survive
