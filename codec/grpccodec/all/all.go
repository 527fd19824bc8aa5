// Package all registers every compressor of grpccodec with grpc-go when it is
// imported:
//
//	import _ "github.com/cinch-layer/cinch/codec/grpccodec/all"
//
// Another package that registers a name later, in its own init, replaces the one of this;
// see grpccodec.Register.
package all

import "github.com/cinch-layer/cinch/codec/grpccodec"

func init() {
	if err := grpccodec.Register(grpccodec.Names()...); err != nil {
		panic(err) // the package doesn't know its own names
	}
}
