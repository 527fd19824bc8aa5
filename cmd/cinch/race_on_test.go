//go:build race

package main

// underRace: the detector slows training, which is arithmetic, down by tenfold and more.
const underRace = true
