//go:build !race

package grpccodec_test

const raceDetector = false
