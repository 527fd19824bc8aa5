//go:build race

package plan

// underRace reports whether the race detector is on, which slows training, mostly arithmetic, down by tenfold
// and more.
const underRace = true
