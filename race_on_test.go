//go:build race

package cinch

const raceEnabled = true // sync.Pool drops items at random
