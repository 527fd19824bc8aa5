package testenv

import (
	"testing"
	"time"
)

// Eventually waits until ok, for up to 20 seconds; then it ends the test.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}
