//go:build race

package grpccodec_test

// raceDetector is on: sync.Pool then drops items at random, and libraries allocate.
const raceDetector = true
