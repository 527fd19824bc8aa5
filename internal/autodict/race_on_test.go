//go:build race

package autodict

// underRace is true with the race detector, which slows training, all arithmetic, by a factor of ten and
// more.
const underRace = true
