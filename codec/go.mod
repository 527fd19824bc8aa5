module github.com/cinch-layer/cinch/codec

go 1.26

require github.com/klauspost/compress v1.20.3
