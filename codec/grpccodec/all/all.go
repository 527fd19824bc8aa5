// Package all registers every compressor of grpccodec with grpc-go when it is
// imported:
//
//	import _ "github.com/cinch-layer/cinch/codec/grpccodec/all"
//
// A package that registers the same name in its own init later replaces the compressor of this one; see
// grpccodec.Register.
package all

import "github.com/cinch-layer/cinch/codec/grpccodec"

func init() {
	if err := grpccodec.Register(grpccodec.Names()...); err != nil {
		panic(err) // can't happen: these are the package's own names
	}
}
