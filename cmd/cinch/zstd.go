package main

import (
	"os"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
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

// zstdFlag is what --zstd means, wherever it is.
const zstdFlag = "`NAME` of the implementation: libzstd, go or auto (default auto)"

// chosenZstd are the overrides of who was given the flag, which counts before the environment.
func chosenZstd(flag string) []config.Override {
	overrides := config.FromEnvironment(os.Getenv)
	if flag != "" {
		overrides = append(overrides, config.Override{From: "--zstd", Key: "zstd", Value: flag})
	}
	return overrides
}

// engineWithout makes one for a command that reads no configuration, and names what was chosen: auto, libzstd or go.
func engineWithout(flag string) (e *codec.Engine, chosen string, err error) {
	cfg, err := config.Process(chosenZstd(flag)...)
	if err != nil {
		return nil, "", withCode(exitConfig, err)
	}
	e, err = engineWith(cfg.Zstd)
	return e, cfg.Zstd, err
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
func nativeTrainer() dict.Trainer { return trainerOf(newEngine()) }

// trainerOf is libzstd's for an engine that works with it.
func trainerOf(e *codec.Engine) dict.Trainer {
	if e.ZstdName() == "libzstd" {
		return libzstd.Train
	}
	return nil
}

// defaultZstd is what --zstd=auto takes.
func defaultZstd() string { return newEngine().ZstdName() }
