// Package grpccodec compresses gRPC messages in pure Go: compressors for
// grpc-go, and the same on whole messages for programs that hold them.
//
//	import _ "github.com/cinch-layer/cinch/codec/grpccodec/all"
//
// registers snappy, s2, minlz, lz4, zstd and a faster gzip under the names that other implementations use,
// and reads what they write: go-grpc-compression, dskit, Mimir, grpc-java and Envoy. [Register] registers
// only those named, [New] and [Set] need no registration and no globals.
//
// In a program that registers the same names itself the import may have no effect: the last registration
// wins, and packages are initialised in the order of their import paths. There, call [Register] at the
// beginning of main.
//
// On whole messages, by the name in grpc-encoding, optionally with a level:
//
//	set := grpccodec.NewSet(grpccodec.Options{})
//	out, err := set.AppendCompress(dst, src, "zstd-1")
//	raw, err := set.AppendDecompress(dst, src, "zstd", maxSize)
//
// A message holds an encoder or a decoder from its first byte to its end. A [Set] limits how many are in use,
// whereas a pool would let them grow. States are single-threaded, have small windows, and are dropped when
// they were not needed for a while.
package grpccodec
