package testenv

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// InitPostgres makes the data directory of a new server with a superuser "postgres" who needs no password,
// for the programs in bin. dir and as are those that PostgresDir returns. initdb runs once for each version
// of the programs. All data directories are copies of its result and share one system identifier.
func InitPostgres(t testing.TB, bin, dir string, as []string, data string) {
	t.Helper()
	from := postgresTemplate(t, bin, dir, as)
	Run(t, dir, "cp", "-a", from, data)
}

// postgresTemplate returns the cached directory that data directories are copied from.
func postgresTemplate(t testing.TB, bin, dir string, as []string) string {
	t.Helper()
	program, err := os.Stat(filepath.Join(bin, "initdb"))
	if err != nil {
		t.Fatal(err)
	}
	// WAL segments are small: each is written in full when it is made, and copied with the directory.
	options := []string{"-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C", "--wal-segsize", "1"}
	key := fnv.New64a()
	fmt.Fprint(key, bin, program.ModTime(), program.Size(), options)
	cached := filepath.Join(CacheDir(), fmt.Sprintf("initdb-%x", key.Sum64()))
	if _, err := os.Stat(cached); err == nil {
		return cached
	}
	made := filepath.Join(dir, "template")
	runAs(t, dir, as, append([]string{filepath.Join(bin, "initdb"), "-D", made}, options...)...)
	if err := os.MkdirAll(CacheDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	part, err := os.MkdirTemp(CacheDir(), "initdb-part-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(part)
	Run(t, dir, "cp", "-a", made, filepath.Join(part, "data")) // dir may be on another filesystem
	if err := os.RemoveAll(made); err != nil {
		t.Fatal(err)
	}
	// Another process has put it there first.
	if err := os.Rename(filepath.Join(part, "data"), cached); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return cached
}
