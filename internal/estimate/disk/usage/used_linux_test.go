package usage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// files writes text, noise and a file of a few bytes below a directory, including a second name and a link.
func files(t *testing.T, dir string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var text bytes.Buffer
	for text.Len() < 3<<20 {
		text.WriteString("order " + strconv.Itoa(r.IntN(1e6)) + " of basil and rice\n")
	}
	noise := make([]byte, 900_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	if err := os.MkdirAll(filepath.Join(dir, "data", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"base/text": text.Bytes(), "base/noise": noise, "few": []byte("few")} {
		if err := os.WriteFile(filepath.Join(dir, "data", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "data", "few"), filepath.Join(dir, "data", "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "data"), filepath.Join(dir, "data", "loop")); err != nil {
		t.Fatal(err)
	}
}

// On btrfs the size equals that by compsize, with and without compression.
func TestBtrfs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a filesystem")
	}
	for _, option := range []string{"loop", "loop,compress-force=zstd:3"} {
		mnt := testenv.Btrfs(t, option)
		files(t, mnt)
		got, err := Directory(t.Context(), filepath.Join(mnt, "data"))
		want := testenv.Compsize(t, mnt) - int64(len("few")) // compsize counts both names of a file that has two
		if err != nil || got.Bytes != want || got.By != "btrfs" {
			t.Errorf("%s: %+v, compsize %d, %v", option, got, want, err)
		}
	}
}

// On other filesystems the size equals that by du.
func TestBlocks(t *testing.T) {
	dir := t.TempDir()
	files(t, dir)
	got, err := Directory(t.Context(), filepath.Join(dir, "data"))
	if err != nil || got.By == "blocks" && (got.Bytes < 3<<20+900_000 || got.Bytes > 4<<20) {
		t.Errorf("%+v, %v", got, err)
	}
}
