package server

import (
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
)

// grpcCodecs returns the compressors that gateways for gRPC and HTTP share. The first call makes them.
func (s *shared) grpcCodecs() *grpccodec.Set {
	if s.grpcSet == nil {
		var o grpccodec.Options
		if usesLibzstd(s.engine) {
			o.Zstd = s.options.Zstd.Native()
		}
		s.grpcSet = grpccodec.NewSet(o)
	}
	return s.grpcSet
}

// cache returns the cache of the gateways for gRPC. The first call makes it.
func (s *shared) cache() *grpc.Cache {
	if s.grpcCache == nil {
		s.grpcCache = grpc.NewCache(s.grpcCodecs())
	}
	return s.grpcCache
}
