module github.com/cinch-layer/cinch/bench/library

go 1.26.0

require (
	github.com/cinch-layer/cinch v0.1.0
	github.com/cinch-layer/cinch/bench v0.1.0
	github.com/cinch-layer/cinch/clients/go/cinchredis v0.1.0
	github.com/cinch-layer/cinch/codec v0.1.0
	github.com/cinch-layer/cinch/codec/libzstd v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/minlz v1.2.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/ulikunitz/xz v0.5.17 // indirect
	github.com/valyala/gozstd v1.24.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
