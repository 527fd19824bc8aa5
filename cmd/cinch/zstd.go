package main

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/ui"
)

// engineWith makes an engine with the implementation of zstd that the configuration names.
func engineWith(zstd string) (*codec.Engine, error) {
	if zstd == "go" {
		return codec.New(codec.Options{}), nil
	}
	if z := nativeZstd(); z != nil {
		return codec.New(codec.Options{Zstd: z}), nil
	}
	if zstd == "libzstd" {
		return nil, withCode(exitConfig, ui.WithHint(libzstd.ErrUnavailable, "build with CGO_ENABLED=1 and a C compiler, or use zstd: go"))
	}
	return codec.New(codec.Options{}), nil
}

// nativeZstd is libzstd, nil where cgo was not there to build it.
func nativeZstd() codec.ZstdCoder {
	if z, ok := libzstd.New(); ok {
		return z
	}
	return nil
}

// defaultZstd is what --zstd=auto takes: libzstd where it was built in.
func defaultZstd() string {
	if z := nativeZstd(); z != nil {
		return z.Name()
	}
	return codec.NewGoZstd().Name()
}
