//go:build race

package mongo

// underRace: the detector slows codecs and training, which are arithmetic, down by tenfold and more.
const underRace = true
