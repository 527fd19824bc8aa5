// Command hop measures the latency and the CPU time that a gateway adds to a unary gRPC call, below its
// capacity.
//
//	cd bench/grpc && go run ./hop -pin
//
// It starts an echo server, `cinch serve --grpc`, HAProxy and clients as separate processes. First it
// determines how many calls a second the gateway can handle, then it sends calls at fractions of that rate,
// directly and through the gateway in turn.
//
// Calls come at random times (a Poisson process), whether or not earlier ones are answered: calls in bursts
// would wait for each other, and clients that wait for answers would spare a slow server. Client and server
// are a few lines above HTTP/2's frames, because a busy client or server would measure itself.
//
// With -pair there are two gateways with a link between them. -beside measures another build in turn.
//
// With -pin the gateway has one CPU for itself; client and server have the others.
package main
