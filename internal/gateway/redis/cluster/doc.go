// Package cluster knows where the servers of a Redis Cluster are, or those that Sentinels watch, and gives
// each a gateway of its own.
//
//	cluster.go   Cluster: the listeners, a gateway for each node, where clients begin
//	look.go      asking nodes about each other, again and again
//	seeds.go     which port a node gets, so that several gateways agree
//	sentinel.go  servers that Sentinels watch
//	view.go      View: what the sessions at one gateway may ask: where is that node?
//	rewrite.go   replies that name nodes, and what Sentinels say, with other addresses
//	ready.go     whether clients would be served
//
// It imports nothing of the gateway whose copies it starts: that is given as a function.
package cluster
