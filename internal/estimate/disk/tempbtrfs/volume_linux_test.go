package tempbtrfs

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/test/testenv"
)

// need skips the test if no filesystem can be made, and puts images into a directory of the test.
func need(t *testing.T) {
	t.Helper()
	testenv.NeedsPrograms(t)
	t.Setenv("TMPDIR", t.TempDir())
	err := Check()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true" && !errors.Is(err, ErrRoot) && !errors.Is(err, ErrBtrfs):
		t.Fatalf("%v; run: scripts/servers install btrfs", err)
	default:
		t.Skip(err)
	}
}

// files returns a directory with text, noise, holes, and files of a few bytes.
func files(t *testing.T) string {
	t.Helper()
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	text := func(n int) []byte {
		var b bytes.Buffer
		for b.Len() < n {
			b.WriteString("order " + strconv.Itoa(r.IntN(1e6)) + " of basil and rice\n")
		}
		return b.Bytes()[:n]
	}
	noise := make([]byte, 900000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for i, data := range [][]byte{text(3 << 20), noise, append(text(300000), noise...), text(50), text(4096), text(4097), text(700000)} {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(text(1<<20), 8<<20); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(20 << 20); err != nil {
		t.Fatal(err)
	}
	return dir
}

func measured(t *testing.T, dir string, sample int, b ...disk.Btrfs) *disk.Result {
	t.Helper()
	r, err := disk.Compute(context.Background(), dir, disk.Options{Engine: codec.New(codec.Options{}), Btrfs: b, Sample: sample, Mount: Mount})
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t)
	return r
}

// The measured size equals that by compsize for the same files on a separate mount.
func TestMeasured(t *testing.T) {
	need(t)
	dir := files(t)
	settings := []disk.Btrfs{{Compression: "zstd:3"}, {Compression: "zlib:3", Force: true}, {Compression: "lzo", Force: true}}
	got := measured(t, dir, 0, settings...)
	for i, b := range settings {
		e := got.Estimates[i]
		if want := compsize(t, dir, b); e.Physical != want || !e.Measured || e.Error != 0 {
			t.Errorf("%s: %+v, compsize %d", e.Setting, e, want)
		}
	}
}

// A sample represents all files.
func TestMeasuredSample(t *testing.T) {
	need(t)
	dir := t.TempDir()
	line := []byte("order 1042 of basil and rice, to be had at 12\n")
	if err := os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat(line, 64<<20/len(line)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := disk.Btrfs{Compression: "zstd:3", Force: true}
	all, some := measured(t, dir, 0, b).Estimates[0], measured(t, dir, 20, b).Estimates[0]
	if d := float64(some.Physical-all.Physical) / float64(all.Physical); d < -0.02 || d > 0.02 {
		t.Errorf("sample %+v, all %+v", some, all)
	}
}

// An interrupted run leaves nothing behind.
func TestInterrupted(t *testing.T) {
	need(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := disk.Options{Engine: codec.New(codec.Options{}), Btrfs: []disk.Btrfs{{Compression: "zstd:3"}}, Mount: Mount}
	o.Progress = func(done float64, _ string) {
		if done > 0.6 { // the second pass: the sample is being written
			if ctx.Err() == nil && !strings.Contains(loops(t), os.TempDir()) {
				t.Errorf("not a loop device of this test: %s", loops(t))
			}
			cancel()
		}
	}
	if _, err := disk.Compute(ctx, files(t), o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	nothingLeft(t)
}

func TestSpace(t *testing.T) {
	need(t)
	if _, err := Mount(context.Background(), disk.Btrfs{Compression: "lzo"}, 1<<60); !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), os.TempDir()) {
		t.Error(err)
	}
	nothingLeft(t)
}

// nothingLeft looks for remaining files and loop devices. The kernel takes some time to release them.
func nothingLeft(t *testing.T) {
	t.Helper()
	if names, _ := filepath.Glob(filepath.Join(os.TempDir(), "cinch-exact-*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
	for since := time.Now(); strings.Contains(loops(t), os.TempDir()); time.Sleep(20 * time.Millisecond) {
		if time.Since(since) > time.Minute {
			t.Fatalf("left behind: %s", loops(t))
		}
	}
}

func loops(t *testing.T) string {
	t.Helper()
	return testenv.Command(t, "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE")
}

func compsize(t *testing.T, dir string, b disk.Btrfs) int64 {
	t.Helper()
	image, mnt := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, imageBytes); err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, mkfs, "-q", image)
	option := "compress="
	if b.Force {
		option = "compress-force="
	}
	testenv.Command(t, "mount", "-o", "loop,"+option+b.Compression, image, mnt)
	defer testenv.Command(t, "umount", mnt)
	testenv.Command(t, "cp", "-r", "--sparse=always", dir+"/.", mnt)
	return testenv.Compsize(t, mnt)
}
