// Package soak runs a gateway under a mixture of all client workloads for a given time, with a Sentinel
// failover of its upstream every few minutes. Every value that is read must be right, and memory must not
// grow.
//
//	go test ./test/soak -soak.length 1h -timeout 70m -v
//
// TestPairsUnderMixedLoad does the same with pairs of gateways for gRPC and HTTP, whose histories have very
// little memory, beside clients that misbehave. scripts/hour runs it with the race detector.
package soak
