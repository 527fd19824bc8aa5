// Package cluster discovers the servers of a Redis Cluster, or those that Sentinels watch, and runs a gateway
// for each.
//
//	cluster.go   Cluster: the listeners, a gateway for each node, the entry for clients
//	poll.go      asking nodes for the list of nodes
//	members.go   nodes that join, leave, or give their port to a node that clients need more
//	nodes.go     parses CLUSTER NODES
//	ports.go     the ports that follow the entry's
//	seeds.go     assigns these ports by the order of the seeds, so that several gateways agree
//	sentinel.go  servers that Sentinels watch
//	view.go      View: the addresses at which clients of one gateway reach the other nodes
//	rewrite.go   replaces addresses in replies that name nodes, and in messages of Sentinels
//	ready.go     whether clients would be served
//
// It does not import the gateway that it runs for each node: Config.New makes one.
package cluster
