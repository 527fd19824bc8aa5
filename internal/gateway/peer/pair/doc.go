// Package pair has what two gateways need that exchange dictionaries, whatever protocol they
// speak: the near one stands beside clients, the far one beside the server. How dictionaries
// travel and how messages name them is the protocol's, and stays with its gateway.
//
//	shelf.go   dictionaries of other gateways, each once for all connections
//	totals.go  what is counted, for metrics
//	warn.go    what an operator should know
package pair
