package main

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/ui"
)

// engineWith makes an engine with the implementation of zstd that the configuration names.
func engineWith(zstd string) (*codec.Engine, error) {
	if zstd == "go" {
		return codec.New(codec.Options{}), nil
	}
	if zstd == "libzstd" && nativeZstd() == nil {
		return nil, withCode(exitConfig, ui.WithHint(libzstd.ErrUnavailable, "build with CGO_ENABLED=1 and a C compiler, or use zstd: go"))
	}
	return newEngine(), nil
}

// newEngine makes one with the best there is.
func newEngine() *codec.Engine { return codec.New(codec.Options{Zstd: nativeZstd()}) }

// nativeZstd is libzstd, nil where cgo was not there to build it.
func nativeZstd() codec.ZstdCoder {
	if z, ok := libzstd.New(); ok {
		return z
	}
	return nil
}

// nativeTrainer is libzstd's, likewise.
func nativeTrainer() dict.Trainer {
	if nativeZstd() == nil {
		return nil
	}
	return libzstd.Train
}

// trainerOf is libzstd's for an engine that works with it.
func trainerOf(e *codec.Engine) dict.Trainer {
	if e.ZstdName() == "libzstd" {
		return libzstd.Train
	}
	return nil
}

// defaultZstd is what --zstd=auto takes.
func defaultZstd() string { return newEngine().ZstdName() }
