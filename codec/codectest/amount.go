package codectest

import (
	"os"
	"testing"
)

// Amount returns how much a test does: less with -short, all with CINCH_FULL=1, which make full sets, and
// otherwise usual.
func Amount[T any](less, usual, all T) T {
	switch {
	case testing.Short():
		return less
	case os.Getenv("CINCH_FULL") == "1":
		return all
	}
	return usual
}
