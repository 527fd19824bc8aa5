//go:build !race

package mongo

const underRace = false
