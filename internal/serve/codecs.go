package serve

import (
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
)

// grpcCodecs returns the compressors that gateways for gRPC and HTTP share. It makes them with the first of those.
func (s *shared) grpcCodecs() *grpccodec.Set {
	if s.grpcSet == nil {
		var o grpccodec.Options
		if native(s.engine) {
			o.Zstd = s.options.Zstd.Native()
		}
		s.grpcSet = grpccodec.NewSet(o)
	}
	return s.grpcSet
}

// cache is that of the gateways for gRPC, made with the first one.
func (s *shared) cache() *grpc.Cache {
	if s.grpcCache == nil {
		s.grpcCache = grpc.NewCache(s.grpcCodecs())
	}
	return s.grpcCache
}
