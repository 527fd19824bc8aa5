//go:build race

package cinchredis

const raceDetector = true
