package history

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A starting process removes half-written files of a killed one, but not the file that the process it
// replaces is writing.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	young, old := filepath.Join(dir, "10s-00000002"+suffix+".tmp"), filepath.Join(dir, "10s-00000001"+suffix+".tmp")
	for _, name := range []string{young, old} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * leftAfter)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	if err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("what is being written was removed:", err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what was left stays")
	}
}
