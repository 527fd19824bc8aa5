// Package memory limits the bytes that gateways hold in flight for their clients, so that none of them can take
// what others need, and counts them. It knows no protocol.
//
//	budget.go     the limit of a process in one direction, and why waiting for it can't deadlock
//	share.go      its parts for gateways and for client addresses
//	account.go    what one connection holds
//	waiting.go    the queue of those that want more
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
