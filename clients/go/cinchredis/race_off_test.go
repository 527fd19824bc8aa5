//go:build !race

package cinchredis

const raceDetector = false
