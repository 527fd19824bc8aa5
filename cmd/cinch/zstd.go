package main

import (
	"os"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// engineWith returns an engine with the configured implementation of zstd.
func engineWith(zstd string) (*codec.Engine, error) {
	if zstd == "go" {
		return codec.New(codec.Options{}), nil
	}
	if zstd == "libzstd" && nativeZstd() == nil {
		return nil, withCode(exitConfig, terminal.WithHint(libzstd.ErrUnavailable, "build with CGO_ENABLED=1 and a C compiler, or use zstd: go"))
	}
	return newEngine(), nil
}

// zstdFlag is the help of all --zstd flags.
const zstdFlag = "`NAME` of the implementation: libzstd, go or auto (default auto)"

// chosenZstd returns the overrides of the environment and of --zstd, which takes precedence.
func chosenZstd(flag string) []config.Override {
	overrides := config.FromEnvironment(os.Getenv)
	if flag != "" {
		overrides = append(overrides, config.Override{From: "--zstd", Key: "zstd", Value: flag})
	}
	return overrides
}

// engineWithout returns an engine for a command without a configuration, and the chosen name: auto, libzstd
// or go.
func engineWithout(flag string) (e *codec.Engine, chosen string, err error) {
	cfg, err := config.Process(chosenZstd(flag)...)
	if err != nil {
		return nil, "", withCode(exitConfig, err)
	}
	e, err = engineWith(cfg.Zstd)
	return e, cfg.Zstd, err
}

// newEngine returns an engine with the best available implementation.
func newEngine() *codec.Engine { return codec.New(codec.Options{Zstd: nativeZstd()}) }

// nativeZstd returns libzstd, or nil if it was built without cgo.
func nativeZstd() codec.ZstdCoder {
	if z, ok := libzstd.New(); ok {
		return z
	}
	return nil
}

// nativeTrainer returns libzstd's trainer, or nil if it was built without cgo.
func nativeTrainer() dict.Trainer { return trainerOf(newEngine()) }

// trainerOf returns libzstd's trainer if the engine uses libzstd, or nil.
func trainerOf(e *codec.Engine) dict.Trainer {
	if e.ZstdName() == "libzstd" {
		return libzstd.Train
	}
	return nil
}

// defaultZstd returns the implementation of --zstd=auto.
func defaultZstd() string { return newEngine().ZstdName() }
