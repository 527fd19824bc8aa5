package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

func testEngine() *codec.Engine {
	o := codec.Options{}
	if z, ok := libzstd.New(); ok {
		o.Zstd = z
	}
	return codec.New(o)
}

// btrfsLimit is what the product promises. All of this was exact to the byte.
func btrfsLimit(b Btrfs) float64 {
	if strings.HasPrefix(b.Compression, "zstd") {
		return 0.005
	}
	return 0.01
}

// The estimate is what a real btrfs then takes, as compsize counts it. bench/disk does the
// same with a PostgreSQL directory.
func TestRealBtrfs(t *testing.T) {
	needBtrfs(t)
	dir := adversarial(t)
	_, exact := libzstd.New()
	for _, name := range []string{"zstd:1", "zstd:3", "zstd:9", "zlib:3", "lzo"} {
		for _, b := range []Btrfs{{Compression: name}, {Compression: name, Force: true}} {
			t.Run(fmt.Sprintf("%s force=%v", name, b.Force), func(t *testing.T) {
				if !exact && strings.HasPrefix(name, "zstd") {
					t.Skip("the kernel's zstd is libzstd, which takes cgo")
				}
				mnt := mountBtrfs(t, b)
				run(t, "cp", "-r", dir+"/.", mnt)
				near(t, compute(t, dir, Options{Engine: testEngine(), Btrfs: []Btrfs{b}}), compsize(t, mnt), btrfsLimit(b))
			})
		}
	}
}

// What is never compressed is known from files that are on btrfs already; so is another
// filesystem that is mounted below.
func TestRealBtrfsUncompressed(t *testing.T) {
	needBtrfs(t)
	b, r := Btrfs{Compression: "zlib:3"}, rand.New(rand.NewPCG(8, 8))
	mnt := mountBtrfs(t, b)
	write(t, prose(r, 3<<20), mnt, "plain")
	if err := os.Mkdir(filepath.Join(mnt, "nodatacow"), 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "chattr", "+C", filepath.Join(mnt, "nodatacow"))
	write(t, prose(r, 2<<20), mnt, "nodatacow", "file")
	f, err := os.Create(filepath.Join(mnt, "fallocated"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 4<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(prose(r, 1<<20)); err != nil { // the rest stays as it was allocated
		t.Fatal(err)
	}
	truth := compsize(t, mnt)
	below := filepath.Join(mnt, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "tmpfs", below)
	defer run(t, "umount", below)
	write(t, prose(r, 5<<20), below, "not ours")
	got := compute(t, mnt, Options{Engine: testEngine(), Btrfs: []Btrfs{b}})
	near(t, got, truth, 0)
	if got.Files != 3 || got.Fixed != 2 || got.FixedSize != 6<<20 || got.Mounts != 1 {
		t.Errorf("%+v", got)
	}
}

func near(t *testing.T, r *Result, truth int64, limit float64) {
	t.Helper()
	e := r.Estimates[0]
	d := float64(e.Physical-truth) / float64(truth)
	t.Logf("estimate %d, compsize %d: %+.3f%%", e.Physical, truth, 100*d)
	if d > limit || d < -limit {
		t.Errorf("estimate %d, compsize %d: off by %.2f%%", e.Physical, truth, 100*d)
	}
}

// needBtrfs skips where there can be no loop mount. In CI the programs have to be there.
func needBtrfs(t *testing.T) {
	t.Helper()
	for _, program := range []string{"mkfs.btrfs", "compsize", "mount", "chattr"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "true" {
			t.Fatalf("%v; run: test/servers install btrfs", err)
		} else if err != nil {
			t.Skipf("%v; run: test/servers install btrfs", err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can mount btrfs in a loop")
	}
}

// mountBtrfs makes a filesystem for the length of the test.
func mountBtrfs(t *testing.T, b Btrfs) string {
	t.Helper()
	image, mnt := filepath.Join(t.TempDir(), "image"), t.TempDir()
	write(t, nil, image)
	if err := os.Truncate(image, 1<<30); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.btrfs", "-q", image)
	option := "compress="
	if b.Force {
		option = "compress-force="
	}
	if out, err := exec.Command("mount", "-o", "loop,"+option+b.Compression, image, mnt).CombinedOutput(); err != nil {
		t.Skipf("btrfs can't be mounted in a loop here: %v: %s", err, out)
	}
	t.Cleanup(func() { run(t, "umount", mnt) })
	return mnt
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// compsizeTotal is of compsize's table: type, percent, disk usage, uncompressed, referenced.
var compsizeTotal = regexp.MustCompile(`(?m)^TOTAL\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)`)

func compsize(t *testing.T, mnt string) int64 {
	t.Helper()
	run(t, "sync", "-f", mnt)
	m := compsizeTotal.FindStringSubmatch(run(t, "compsize", "-b", mnt))
	if m == nil {
		t.Fatal("compsize printed no total")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
