package testenv

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestShared(t *testing.T) {
	starts := 0
	start := func(t testing.TB) string {
		starts++
		return t.TempDir()
	}
	a, b := Shared(t, "a", start), Shared(t, "a", start)
	if a != b || starts != 1 {
		t.Errorf("%q and %q by %d starts, want one", a, b, starts)
	}
	if _, err := os.Stat(a); err != nil {
		t.Error(err)
	}
	t.Run("skipped", func(t *testing.T) {
		for range 2 {
			ran := t.Run("one", func(t *testing.T) {
				Shared(t, "b", func(t testing.TB) int {
					t.Skip("not here")
					return 1
				})
				t.Error("it went on")
			})
			if !ran {
				t.Error("a test of a skipped start fails")
			}
		}
	})
}
