//go:build race

package mongo

// underRace is set because the race detector makes codecs and training ten times slower or more.
const underRace = true
