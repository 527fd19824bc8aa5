package testenv

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
)

var seedFlag = flag.String("seed", "1", "number from which tests with random choices make them, or random: another each time")

// chosen returns the seed of all tests of the run.
var chosen = sync.OnceValues(func() (uint64, error) {
	if *seedFlag == "random" {
		return rand.Uint64N(1e9), nil
	}
	return strconv.ParseUint(*seedFlag, 10, 64)
})

// Seed returns the seed for a test's random choices: that of -seed, or else the same one in every run, so
// that a failed run can be repeated. A test that fails prints it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := chosen()
	if err != nil {
		t.Fatalf("-seed %s: neither a number nor random", *seedFlag)
	}
	t.Logf("-seed %d", seed)
	return seed
}
