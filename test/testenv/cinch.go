package testenv

import "testing"

// Cinch builds cmd/cinch, once in a test process, and returns the path of the program.
func Cinch(t testing.TB) string {
	t.Helper()
	return build(t, false, false)
}
