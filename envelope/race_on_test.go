//go:build race

package envelope

const raceEnabled = true // sync.Pool drops items at random
