// Package survive tests what can happen to the dictionaries in a store: eviction, flushes, failover with
// lag, restored backups, new nodes, and values moved to other stores. Each time a reader that has never
// loaded a dictionary must be able to open every value.
package survive
