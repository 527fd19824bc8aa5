//go:build race

package verdict

// underRace: the detector slows training, which is arithmetic, down by tenfold and more.
const underRace = true
