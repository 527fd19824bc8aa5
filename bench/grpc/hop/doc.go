// Command hop measures what a gateway adds to a unary gRPC call, below its capacity: in
// latency, and in CPU.
//
//	cd bench/grpc && go run ./hop -pin
//
// It starts a server that echoes, `cinch serve --grpc`, HAProxy and clients as processes of their own.
// First it finds out how many calls a second the gateway does at most, then it sends calls at
// parts of that rate, directly and through the gateway in turn.
//
// Calls come at random times (a Poisson process), whether or not earlier ones are answered:
// in bursts they would wait for each other, and clients that wait for answers would spare a
// slow server. Client and server are a few lines above HTTP/2's frames, because who is
// busy measures himself.
//
// With -pin the gateway has one CPU for itself, and client and server the others.
package main
