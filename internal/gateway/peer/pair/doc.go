// Package pair holds and counts the dictionaries that two gateways for gRPC exchange: the near one stands beside
// clients, the far one beside the server. How dictionaries travel and how messages name them is in package grpc.
//
//	shelf.go   dictionaries of other gateways, each once for all connections
//	totals.go  what is counted, for metrics
//	warn.go    what an operator should know
package pair
