// Package grpc runs gRPC clients of several languages directly against real servers, through one gateway
// and through two in a row, and checks that the results are the same.
//
// The programs are grpc-go's and grpc-java's interoperability suites, grpcurl, ghz, and a shared scenario
// (scenario.json) in Python and Node. The byte-exact transcripts of its client and its server are compared.
// Other tests cover servers that die, start late, send GOAWAY or reset connections, metadata of 60 KB, a
// thousand streams, and clients that do not read.
//
// test/grpc/tools installs the programs that `go install` provides; tests call it too.
package grpc
