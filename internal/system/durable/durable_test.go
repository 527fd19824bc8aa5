package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file is made and replaced whole, with no other file left in its directory.
func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state.json")
	for _, text := range []string{"one, which is longer", "", "two"} {
		if err := WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); string(got) != text || err != nil {
			t.Errorf("%q after %q: %v", got, text, err)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	wantFiles(t, filepath.Dir(name), 1)
}

// A file that can't be replaced stays, and the new one is removed.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(name, "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	wantFiles(t, dir, 1)
	if err := WriteFile(filepath.Join(dir, "none", "state.json"), []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

func wantFiles(t *testing.T, dir string, n int) {
	t.Helper()
	if files, err := os.ReadDir(dir); err != nil || len(files) != n {
		t.Errorf("%v %v", files, err)
	}
}
