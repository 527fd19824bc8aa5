module github.com/cinch-layer/cinch/codec/libzstd

go 1.26.0

require (
	github.com/cinch-layer/cinch/codec v0.1.0
	github.com/valyala/gozstd v1.24.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/minlz v1.2.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/grpc v1.85.0 // indirect
)
