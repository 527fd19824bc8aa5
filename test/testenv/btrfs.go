package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// btrfsBytes is the size of the image file, which is sparse.
const btrfsBytes = 4 << 30

// Btrfs mounts a new, empty btrfs until the test ends. It needs root.
func Btrfs(t testing.TB, options string) (dir string) {
	t.Helper()
	Program(t, "mkfs.btrfs")
	image, mnt := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, btrfsBytes); err != nil {
		t.Fatal(err)
	}
	Command(t, "mkfs.btrfs", "-q", image)
	Command(t, "mount", "-o", options, image, mnt)
	t.Cleanup(func() { Command(t, "umount", mnt) })
	return mnt
}
