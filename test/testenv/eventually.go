package testenv

import (
	"testing"
	"time"
)

// Eventually waits until ok, for up to three minutes, as machines may be busy; then it ends the test. It
// looks often at first.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for i := range 9010 {
		if ok() {
			return
		}
		time.Sleep(time.Duration(min(i+1, 20)) * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}
