// Package grpc runs gRPC clients of several languages directly against real servers, through
// one gateway and through two in a row, and demands that nobody can tell the difference.
//
// The programs: grpc-go's and grpc-java's interoperability suites, grpcurl, ghz, and a shared
// scenario (scenario.json) in Python and Node whose byte-exact transcripts, the client's and
// the server's, are compared. Beside them stand the adversities: servers that die, come late,
// say GOAWAY or reset, metadata of 60 KB, a thousand streams, readers that do not read.
//
// test/grpc/tools installs what `go install` can give; tests call it too.
package grpc
