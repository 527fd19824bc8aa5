module github.com/cinch-layer/cinch/codec/libzstd

go 1.26

require github.com/cinch-layer/cinch/codec v0.0.0

require github.com/klauspost/compress v1.20.3 // indirect

replace github.com/cinch-layer/cinch/codec => ../
