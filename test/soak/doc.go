// Package soak holds a gateway under everything that clients do at once, for as long as is
// asked, while Sentinels hand its upstream on every few minutes: every value that is read has to
// be right, and memory has to stay flat.
//
//	go test ./test/soak -soak.length 1h -timeout 70m -v
//
// TestPairsUnderMixedLoad does the like with pairs of gateways for gRPC and HTTP, whose histories have hardly any memory, beside
// clients that misbehave; test/hour runs it with the race detector.
package soak
