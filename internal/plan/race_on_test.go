//go:build race

package plan

// underRace: the detector slows training, which is arithmetic, down by tenfold and more.
const underRace = true
