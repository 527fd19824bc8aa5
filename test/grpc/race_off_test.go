//go:build !race

package grpc

// raceEnabled makes tests under the race detector start gateways under it as well.
const raceEnabled = false
