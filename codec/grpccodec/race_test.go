//go:build race

package grpccodec_test

// raceDetector is on: sync.Pool then forgets at random, and libraries allocate.
const raceDetector = true
