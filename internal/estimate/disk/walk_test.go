package disk

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func lz4At(sample int) Options {
	return Options{Engine: engine(), Sample: sample, ZFS: []ZFS{{Recordsize: 128 << 10, Ashift: 12, Compression: "lz4"}}}
}

func write(t *testing.T, data []byte, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func compute(t *testing.T, path string, o Options) *Result {
	t.Helper()
	r, err := Compute(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A hole of a terabyte costs no time, and takes no records of the sample.
func TestSparseFile(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	random := noise(r, 1<<20)
	for _, at := range []int64{0, 300 << 30} {
		if _, err := f.WriteAt(random, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Skip("no file of a terabyte here:", err)
	}
	if end, err := unix.Seek(int(f.Fd()), 2<<20, unix.SEEK_DATA); err != nil || end != 300<<30 {
		t.Skip("this filesystem tells no holes:", end, err)
	}
	for _, sample := range []int{0, 5} {
		got := compute(t, dir, lz4At(sample))
		if e := got.Estimates[0]; got.Records != 16 || e.Physical < 2<<20*9/10 || e.Physical > 2<<20*11/10 || e.Ratio > 1.01 {
			t.Errorf("sample %d: %d records, %+v", sample, got.Records, e)
		}
	}
	b := compute(t, dir, Options{Engine: testEngine(), Btrfs: []Btrfs{{Compression: "zstd"}}})
	if e := b.Estimates[0]; e.Physical != 2<<20 || e.Logical != 2<<20 {
		t.Errorf("btrfs: %+v", e)
	}
}

func TestLinks(t *testing.T) {
	dir, elsewhere, r := t.TempDir(), t.TempDir(), rand.New(rand.NewPCG(1, 2))
	name := write(t, noise(r, 300000), dir, "file")
	if err := errors.Join(os.Link(name, filepath.Join(dir, "again")), os.Symlink(dir, filepath.Join(elsewhere, "link")), os.Symlink(elsewhere, filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	want := compute(t, dir, lz4At(0))
	if want.Files != 1 || want.Bytes != 300000 || want.Records != 3 || want.Links != 1 {
		t.Errorf("%+v", want)
	}
	for _, path := range []string{filepath.Join(elsewhere, "link"), name} {
		if got := compute(t, path, lz4At(0)); got.Files != 1 || got.Estimates[0] != want.Estimates[0] {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// Files may be removed, shrink, grow or be replaced between counting and reading.
func TestChangingFiles(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"a", "gone", "grown", "pipe", "shrunk"} {
		write(t, noise(r, 1<<20), dir, name)
	}
	o := lz4At(0)
	o.Progress = func(_ float64, what string) {
		if what != "a" {
			return
		}
		for _, name := range []string{"gone", "pipe"} {
			_ = os.Remove(filepath.Join(dir, name))
		}
		_ = syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)
		_ = os.Truncate(filepath.Join(dir, "shrunk"), 5000)
		write(t, noise(r, 3<<20), dir, "grown")
	}
	got := compute(t, dir, o)
	if got.Files != 3 || got.Changed != 2 || got.Bytes != 4<<20+5000 {
		t.Errorf("%+v", got)
	}
}

// Unreadable files are counted, but in no other figure.
func TestUnreadable(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) }) // or only root can remove it
	write(t, noise(r, 1<<20), closed, "inside")
	write(t, noise(r, 1<<20), dir, "private")
	if os.Getuid() == 0 { // to be refused like other users
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setfsuid(65534); err != nil {
			t.Skip(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	} else if err := errors.Join(os.Chmod(filepath.Join(dir, "private"), 0), os.Chmod(closed, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := Compute(context.Background(), dir, lz4At(0)); !errors.Is(err, ErrUnread) {
		t.Errorf("nothing can be read: %v", err)
	}
	_ = syscall.Setfsuid(0)
	public := write(t, noise(r, 5000), dir, "public")
	if err := os.Chmod(public, 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		_ = syscall.Setfsuid(65534)
	}
	got := compute(t, dir, lz4At(0))
	if got.Unread != 2 || got.Files != 1 || got.Bytes != 5000 {
		t.Errorf("%+v", got)
	}
}

func TestNoData(t *testing.T) {
	dir := t.TempDir()
	write(t, nil, dir, "empty")
	if _, err := Compute(context.Background(), dir, lz4At(0)); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
	if _, err := Compute(context.Background(), filepath.Join(dir, "nowhere"), lz4At(0)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	write(t, make([]byte, 300000), dir, "zeros")
	if got := compute(t, dir, lz4At(0)); got.Estimates[0].Physical != 0 || got.Estimates[0].Logical != 0 {
		t.Errorf("zeros: %+v", got)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Compute(ctx, dir, lz4At(0)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Progress reaches the end within one large file, too.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	write(t, []byte(strings.Repeat("all work and no play ", 100000)), dir, "large")
	var seen []float64
	o := lz4At(0)
	o.Progress = func(done float64, _ string) { seen = append(seen, done) }
	compute(t, dir, o)
	if len(seen) < 15 || !slices.IsSorted(seen) || seen[len(seen)-1] < 0.9 || seen[len(seen)-1] > 1 {
		t.Errorf("%v", seen)
	}
}

// Skipped names are in no figure: a directory, a file, a link.
func TestSkip(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "base", "pg_wal"), 0o700), os.Mkdir(filepath.Join(dir, "pg_wal"), 0o700), os.Symlink("/", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	write(t, make([]byte, 5000), dir, "base", "pg_wal", "kept")
	write(t, make([]byte, 700), dir, "pg_wal", "left")
	write(t, make([]byte, 80), dir, "file")
	o := lz4At(0)
	o.Skip = []string{"pg_wal", "file", "link", "nothing"}
	if r := compute(t, dir, o); r.Files != 1 || r.Bytes != 5000 || r.Links != 0 {
		t.Errorf("%+v", r)
	}
}
