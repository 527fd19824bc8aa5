//go:build !race

package grpc

// raceEnabled reports whether the race detector is on. Tests then start gateways with it as well.
const raceEnabled = false
