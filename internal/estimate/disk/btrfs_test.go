package disk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/testenv"
)

func testEngine() *codec.Engine {
	o := codec.Options{}
	if z, ok := libzstd.New(); ok {
		o.Zstd = z
	}
	return codec.New(o)
}

// The estimate matches the size on a real btrfs, as counted by compsize. bench/disk does the same with a
// PostgreSQL directory.
func TestRealBtrfs(t *testing.T) {
	needBtrfs(t)
	dir := adversarial(t)
	_, exact := libzstd.New()
	for _, name := range []string{"zstd:1", "zstd:3", "zstd:9", "zlib:1", "zlib:3", "lzo"} {
		for _, b := range []Btrfs{{Compression: name}, {Compression: name, Force: true}} {
			t.Run(fmt.Sprintf("%s force=%v", name, b.Force), func(t *testing.T) {
				if name != "zstd:3" && (name != "zlib:3" && name != "lzo" || !b.Force) {
					testenv.Full(t)
				}
				if !exact && strings.HasPrefix(name, "zstd") {
					t.Skip("the kernel's zstd is libzstd, which takes cgo")
				}
				mnt := mountBtrfs(t, b)
				testenv.Command(t, "cp", "-r", dir+"/.", mnt)
				near(t, compute(t, dir, Options{Engine: testEngine(), Btrfs: []Btrfs{b}}), testenv.Compsize(t, mnt))
			})
		}
	}
}

// On data that was not used for fitting, one directory of each kind, the stated error is not exceeded.
func TestRealBtrfsOnCorpora(t *testing.T) {
	testenv.Full(t)
	needBtrfs(t)
	_, exact := libzstd.New()
	for _, corpus := range corpora(t) {
		for _, name := range []string{"zstd:3", "zlib:1", "zlib:3", "zlib:6", "lzo"} {
			t.Run(filepath.Base(corpus)+" "+name, func(t *testing.T) {
				if !exact && strings.HasPrefix(name, "zstd") {
					t.Skip("the kernel's zstd is libzstd, which takes cgo")
				}
				b := Btrfs{Compression: name, Force: true}
				mnt := mountBtrfs(t, b)
				testenv.Command(t, "cp", "-rL", corpus+"/.", mnt)
				near(t, compute(t, corpus, Options{Engine: testEngine(), Btrfs: []Btrfs{b}}), testenv.Compsize(t, mnt))
			})
		}
	}
}

// corpora returns directories of source code, a program, and logs.
func corpora(t *testing.T) []string {
	t.Helper()
	source := filepath.Join(strings.TrimSpace(testenv.Command(t, "go", "env", "GOROOT")), "src", "go")
	program, logs := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, "cp", self, program)
	r := rand.New(rand.NewPCG(9, 9))
	var lines bytes.Buffer
	for at := 1.7e9; lines.Len() < 8<<20; at += r.ExpFloat64() {
		fmt.Fprintf(&lines, `{"ts":%.3f,"level":%q,"host":"web-%02d","path":"/api/%s/%d","status":%d,"bytes":%d,"trace":"%016x%016x"}`+"\n",
			at, words[r.IntN(3)], r.IntN(20), words[r.IntN(len(words))], r.IntN(1e6), 200+100*r.IntN(4), r.IntN(1<<16), r.Uint64(), r.Uint64())
	}
	write(t, lines.Bytes(), logs, "app.jsonl")
	return []string{source, program, logs}
}

// If the files are on btrfs already, those that it never compresses are recognized. Another filesystem mounted below
// is recognized, too.
func TestRealBtrfsUncompressed(t *testing.T) {
	needBtrfs(t)
	b, r := Btrfs{Compression: "zlib:3"}, rand.New(rand.NewPCG(8, 8))
	mnt := mountBtrfs(t, b)
	write(t, prose(r, 3<<20), mnt, "plain")
	if err := os.Mkdir(filepath.Join(mnt, "nodatacow"), 0o700); err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, "chattr", "+C", filepath.Join(mnt, "nodatacow"))
	write(t, prose(r, 2<<20), mnt, "nodatacow", "file")
	f, err := os.Create(filepath.Join(mnt, "fallocated"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 4<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(prose(r, 1<<20)); err != nil { // the rest stays as allocated
		t.Fatal(err)
	}
	truth := testenv.Compsize(t, mnt)
	below := filepath.Join(mnt, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, "mount", "-t", "tmpfs", "tmpfs", below)
	defer testenv.Command(t, "umount", below)
	write(t, prose(r, 5<<20), below, "not ours")
	got := compute(t, mnt, Options{Engine: testEngine(), Btrfs: []Btrfs{b}})
	near(t, got, truth)
	if got.Files != 3 || got.Fixed != 2 || got.FixedSize != 6<<20 || got.Mounts != 1 {
		t.Errorf("%+v", got)
	}
}

// near fails the test if an estimate is off by more than its stated error.
func near(t *testing.T, r *Result, truth int64) {
	t.Helper()
	e := r.Estimates[0]
	d := float64(e.Physical-truth) / float64(truth)
	t.Logf("estimate %d, compsize %d: %+.3f%%", e.Physical, truth, 100*d)
	if d > e.Error || d < -e.Error {
		t.Errorf("estimate %d, compsize %d: off by %.2f%%, more than %.2g%%", e.Physical, truth, 100*d, 100*e.Error)
	}
}

// needBtrfs skips the test if loop mounts are impossible. In CI the programs must exist.
func needBtrfs(t *testing.T) {
	t.Helper()
	for _, program := range []string{"mkfs.btrfs", "compsize", "mount", "chattr"} {
		testenv.Program(t, program)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can mount btrfs in a loop")
	}
}

// mountBtrfs mounts a filesystem for the duration of the test.
func mountBtrfs(t *testing.T, b Btrfs) string {
	t.Helper()
	image, mnt := filepath.Join(t.TempDir(), "image"), t.TempDir()
	write(t, nil, image)
	if err := os.Truncate(image, 1<<30); err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, "mkfs.btrfs", "-q", image)
	option := "compress="
	if b.Force {
		option = "compress-force="
	}
	if out, err := exec.Command("mount", "-o", "loop,"+option+b.Compression, image, mnt).CombinedOutput(); err != nil {
		t.Skipf("btrfs can't be mounted in a loop here: %v: %s", err, out)
	}
	t.Cleanup(func() { testenv.Command(t, "umount", mnt) })
	return mnt
}
