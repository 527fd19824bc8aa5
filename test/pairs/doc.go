// Package pairs checks how many bytes two gateways need beyond what one sends: at most 1 %, and more in the cases that
// wire_test.go lists. For HTTP, gRPC, MongoDB and tunnels the same sequence of requests and replies goes through one
// gateway and through two, with the defaults of the product, and the bytes on the wire that costs are compared.
//
//	corpus_test.go    what the repository has of recorded traffic, and bytes of the same kinds
//	sequence_test.go  sequences of exchanges, drawn by a seed
//	wire_test.go      gateways in this process, wires that count bytes, and the comparison
//	http_test.go, grpc_test.go, mongo_test.go, tunnel_test.go
//	                  a client and a server for each protocol
//
// The flag -pairs.sequences sets the number of sequences for each protocol, and -seed the first one (-seed random:
// other ones each time). A sequence that fails names its seed: go test ./test/pairs -run 'TestHTTP$' -pairs.only SEED -v
package pairs
