module github.com/cinch-layer/cinch/codec

go 1.26

require (
	github.com/klauspost/compress v1.20.3
	github.com/minio/minlz v1.2.3
	github.com/pierrec/lz4/v4 v4.1.33
)
