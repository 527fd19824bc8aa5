module github.com/cinch-layer/cinch/codec/libzstd

go 1.26

require github.com/cinch-layer/cinch/codec v0.0.0

require github.com/valyala/gozstd v1.24.0 // indirect

replace github.com/cinch-layer/cinch/codec => ../
