//go:build !race

package cinch

const raceEnabled = false
