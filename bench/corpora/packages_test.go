package corpora

import (
	"os"
	"path/filepath"
	"testing"
)

const packument = `{"name": "left", "time": {"created": "2020-01-01", "1.0.0": "2020-01-01", "1.0.1": "2020-01-02", "1.1.0": "2020-01-03",
	"1.1.1-rc.1": "2020-01-04", "2.0.0": "2027-01-01"},
	"versions": {"1.0.0": {"name": "left", "version": "1.0.0"}, "1.0.1": {"name": "left", "version": "1.0.1"}, "1.1.1-rc.1": {}, "2.0.0": {},
	"1.1.0": {"name": "left", "version": "1.1.0", "repository": {"type": "git", "url": "git+ssh://git@github.com/someone/left.git"}}}}`

// Packages takes the last release before the day of each minor version.
func TestPackages(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "npm-records/cache/_cacache/content-v2/sha512/aa")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Packages(dir); err == nil {
		t.Error("no packages are no error")
	}
	for name, text := range map[string]string{"document": packument, "archive": "\x1f\x8b{"} {
		if err := os.WriteFile(filepath.Join(cache, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Packages(dir)
	if err != nil || len(got) != 2 || got[0].Source != "left" || string(got[0].Value) != `{"name":"left","version":"1.0.1"}` || got[1].Source != "someone" {
		t.Errorf("%v: %q", err, got)
	}
}
