//go:build race

package verdict

// underRace reports whether the race detector is on, which slows arithmetic down tenfold and more.
const underRace = true
