package main

// The gateways of the pair: what their settings are, and how they come to dictionaries.
const (
	farSettings  = "rules: [{name: all, setting: raw}]"
	nearSettings = "rules: [{name: all, setting: zstd-3, min_size: 64, min_gain: 5%}]"
)

// gatewayProcess is YAML of a gateway's process, whose directory is dir.
func gatewayProcess(dir string) string { return "" }

// teach runs operations until the pair has dictionaries for them, on documents that are not
// measured afterwards.
func (b *bench) teach(r *route) error { return nil }
