// Package held is the memory that the calls of a client hold, for gateways whose calls share connections: bodies that
// are read whole, or message by message, take it of the budget as their bytes come.
//
//	client.go   a client's connection
//	grant.go    what a body holds
//	gather.go   how it gets into memory
package held
