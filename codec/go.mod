module github.com/cinch-layer/cinch/codec

go 1.26

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/minlz v1.2.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
)
