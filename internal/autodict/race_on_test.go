//go:build race

package autodict

// underRace: the detector slows training, which is arithmetic, down by tenfold and more.
const underRace = true
