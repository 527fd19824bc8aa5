//go:build race

package testenv

// RaceDetector reports whether the race detector is on. It uses memory itself, and lets sync.Pool drop items.
const RaceDetector = true
