// Package memory counts and limits the bytes that gateways hold in flight for their clients, so that no client can
// take the memory that others need. It knows no protocol.
//
//	budget.go     the limit of a process in one direction, and why waiting for it can't deadlock
//	share.go      its parts for gateways and for client addresses
//	account.go    the bytes that one connection holds
//	waiting.go    the queue of blocked requests for bytes
//	overcommit.go memory beyond the shares, for long messages
//	stall.go      disconnects peers that move too little while others wait
//	buffers.go    pooled byte buffers
//
// For gateways whose calls share connections:
//
//	connmemory.go memory of a client's connection
//	grant.go      memory of the current message of a body
//	gather.go     reads a body into memory, which is taken as its bytes come
package memory
