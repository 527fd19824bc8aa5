//go:build !race

package autodict

const underRace = false
