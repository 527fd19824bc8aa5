// Package held accounts for the memory of a client's calls, for gateways whose calls share connections.
// Bodies that are read whole, or message by message, take memory from the budget as their bytes come.
//
//	client.go   memory of a client's connection
//	grant.go    memory of a body
//	gather.go   reading a body into memory
package held
