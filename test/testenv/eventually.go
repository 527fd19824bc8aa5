package testenv

import (
	"testing"
	"time"
)

// Eventually polls until ok returns true, often at first. After three minutes, which allow for busy
// machines, it ends the test.
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
