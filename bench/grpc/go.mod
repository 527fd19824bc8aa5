module github.com/cinch-layer/cinch/bench/grpc

go 1.26.0

require (
	github.com/cinch-layer/cinch v0.0.0
	github.com/cinch-layer/cinch/codec v0.0.0
	github.com/cinch-layer/cinch/codec/libzstd v0.0.0
	github.com/golang/snappy v1.0.0
	github.com/klauspost/compress v1.20.3
	github.com/mostynb/go-grpc-compression v1.2.3
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/minio/minlz v1.2.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/valyala/gozstd v1.24.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/cinch-layer/cinch => ../..

replace github.com/cinch-layer/cinch/codec => ../../codec

replace github.com/cinch-layer/cinch/codec/libzstd => ../../codec/libzstd
