package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

func engine() *codec.Engine { return codec.New(codec.Options{}) }

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

var words = strings.Fields("alpha beta gamma delta order item table chair lamp noodle soup rice curry grill garlic pepper onion tomato basil cheese bread butter honey")

func prose(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"id":%d,"word":%q,"total":%d},`, r.IntN(1e6), words[r.IntN(len(words))], r.IntN(300))
	}
	return b.Bytes()[:n]
}

// One case for each rule of a record.
func TestZFSRecord(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	random := noise(r, 1<<20)
	// A number of random bytes followed by zeros has a known length.
	mixed := func(size, random_ int) []byte {
		return append(append([]byte{}, random[:random_]...), make([]byte, size-random_)...)
	}
	for _, c := range []struct {
		name string
		z    ZFS
		data []byte
		want Block
	}{
		{"off", ZFS{Compression: "off", Ashift: 12}, make([]byte, 8192), Block{8192, 8192}},
		{"a hole", ZFS{Compression: "lz4", Ashift: 12}, make([]byte, 8192), Block{0, 0}},
		{"noise stays", ZFS{Compression: "lz4", Ashift: 12}, random[:8192], Block{8192, 8192}},
		{"8K on 4K sectors is 4K at best", ZFS{Compression: "zstd-9", Ashift: 12}, mixed(8192, 200), Block{8192, 4096}},
		{"8K on 512 bytes", ZFS{Compression: "lz4", Ashift: 9}, mixed(8192, 900), Block{8192, 1024}},
		{"embedded", ZFS{Compression: "lz4", Ashift: 12}, mixed(8192, 20), Block{8192, 0}},
		{"embedded, and shorter than a sector", ZFS{Compression: "lz4", Ashift: 12, CapToSector: true}, mixed(1024, 20), Block{1024, 0}},
		{"just embedded not", ZFS{Compression: "lz4", Ashift: 9}, mixed(8192, 120), Block{8192, 512}},
		{"within 12.5%", ZFS{Compression: "lz4", Ashift: 9}, mixed(16384, 14000), Block{16384, 14336}},
		{"not 12.5%", ZFS{Compression: "lz4", Ashift: 9}, mixed(16384, 14320), Block{16384, 16384}},
		{"rounded up to the whole is raw", ZFS{Compression: "lz4", Ashift: 12}, mixed(16384, 13000), Block{16384, 16384}},
		{"the limit cut to sectors", ZFS{Compression: "lz4", Ashift: 12, CapToSector: true}, mixed(32768, 26000), Block{32768, 28672}},
		{"the limit cut to sectors, above it", ZFS{Compression: "lz4", Ashift: 12, CapToSector: true}, mixed(32768, 28640), Block{32768, 32768}},
		{"on is lz4", ZFS{Compression: "on", Ashift: 9}, mixed(8192, 900), Block{8192, 1024}},
		{"early abort", ZFS{Compression: "zstd-3", Ashift: 12}, random[:128<<10], Block{128 << 10, 128 << 10}},
		{"zstd", ZFS{Compression: "zstd-3", Ashift: 12}, mixed(128<<10, 10000), Block{128 << 10, 12288}},
		{"gzip", ZFS{Compression: "gzip-6", Ashift: 12}, mixed(128<<10, 10000), Block{128 << 10, 12288}},
	} {
		c.z.Recordsize = 128 << 10
		if err := c.z.Prepare(); err != nil {
			t.Fatal(c.name, err)
		}
		if got := c.z.record(&compressor{engine: engine()}, c.data); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ physical, disks, parity, want int }{
		{4096, 3, 1, 8192}, {8192, 3, 1, 16384}, {131072, 3, 1, 196608}, {131072, 6, 2, 196608}, {0, 6, 2, 0},
	} {
		if got := Raidz(c.physical, 4096, c.disks, c.parity); got != c.want {
			t.Errorf("raidz%d of %d disks: %d bytes take %d, want %d", c.parity, c.disks, c.physical, got, c.want)
		}
	}
	z := ZFS{Recordsize: 128 << 10}
	for size, want := range map[int64]int{1: 512, 513: 1024, 128 << 10: 128 << 10, 128<<10 + 1: 128 << 10} {
		if got := z.fileRecord(size); got != want {
			t.Errorf("a file of %d has records of %d, want %d", size, got, want)
		}
	}
}

// The block pointers of pools of ZFS 2.3.2 gave these sizes, exact to the byte (test/zfs/run DIRECTORY RECORDSIZE
// ASHIFT SETTING…). The estimates differ from them by no more than the stated error.
func TestZFSAsPools(t *testing.T) {
	dir := adversarial(t)
	for _, c := range []struct {
		recordsize, ashift int
		physical           map[string]int64
	}{
		{8 << 10, 9, map[string]int64{"lz4": 28248576, "gzip-1": 25085440, "zstd-3": 24749056}},
		{128 << 10, 9, map[string]int64{"lz4": 26828288, "gzip-1": 24758784, "gzip-6": 23486464, "gzip-9": 23333888, "zstd-3": 24228352}},
		{128 << 10, 12, map[string]int64{"lz4": 27693568, "gzip-1": 25289216, "gzip-6": 24228352, "zstd-3": 24658432}},
	} {
		for setting, want := range c.physical {
			t.Run(fmt.Sprintf("%s of %d at %d", setting, c.recordsize, c.ashift), func(t *testing.T) {
				if strings.HasPrefix(setting, "gzip") && (setting != "gzip-1" || c.recordsize != 8<<10) {
					testenv.Full(t) // takes seconds; TestDeflated tests the levels on less data
				}
				z := ZFS{Recordsize: c.recordsize, Ashift: c.ashift, Compression: setting, CapToSector: true}
				e := compute(t, dir, Options{Engine: testEngine(), ZFS: []ZFS{z}}).Estimates[0]
				d := float64(e.Physical-want) / float64(want)
				t.Logf("%s: %d, pool %d: %+.4f%%", e.Setting, e.Physical, want, 100*d)
				if d > e.Error || d < -e.Error {
					t.Errorf("%s: %d, pool %d", e.Setting, e.Physical, want)
				}
			})
		}
	}
}

func TestSettings(t *testing.T) {
	for _, text := range []string{"zstd-20", "zstd-0", "gzip-10", "lzma", "lz4-3", "zstd-fast-5", "zstd-x", ""} {
		if err := (&ZFS{Recordsize: 8192, Ashift: 12, Compression: text}).Prepare(); !errors.Is(err, ErrSetting) {
			t.Errorf("zfs %q: %v", text, err)
		}
	}
	for _, text := range []string{"zstd:16", "zstd:0", "zlib:10", "lz4", "zstd:", ""} {
		if err := (&Btrfs{Compression: text}).Prepare(); !errors.Is(err, ErrSetting) {
			t.Errorf("btrfs %q: %v", text, err)
		}
	}
	for _, z := range []ZFS{{Recordsize: 1000, Ashift: 12}, {Recordsize: 8192, Ashift: 5}, {Recordsize: 8192, Ashift: 12, Disks: 2, Parity: 3}} {
		if err := z.Prepare(); !errors.Is(err, ErrLayout) {
			t.Errorf("%+v: %v", z, err)
		}
	}
}

func TestHeuristic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	if !compressible(prose(r, 100000)) || !compressible(make([]byte, 4096)) || !compressible(bytes.Repeat(noise(r, 4096), 32)) {
		t.Error("no to what compresses")
	}
	if compressible(noise(r, 128<<10)) {
		t.Error("yes to noise")
	}
}

// adversarial returns a directory of difficult files.
func adversarial(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range adversarialFiles() {
		write(t, b, dir, name)
	}
	return dir
}

var adversarialFiles = sync.OnceValue(func() map[string][]byte {
	r, all := rand.New(rand.NewPCG(3, 4)), map[string][]byte{}
	put := func(name string, b []byte) { all[name] = b }
	for i := range 10 {
		put(fmt.Sprintf("text-%d", i), prose(r, 300000+r.IntN(1<<20)))
		put(fmt.Sprintf("noise-%d", i), noise(r, 100000+r.IntN(500000)))
		put(fmt.Sprintf("prefix-%d", i), append(noise(r, 200000), prose(r, 800000)...))
		put(fmt.Sprintf("later-%d", i), append(prose(r, 800000), noise(r, 700000)...))
		put(fmt.Sprintf("zeros-%d", i), make([]byte, 700000))
		put(fmt.Sprintf("tiny-%d", i), prose(r, 1+r.IntN(3000)))
		put(fmt.Sprintf("small-%d", i), prose(r, 3000+r.IntN(3000)))
		var turns []byte
		for k := range 30 {
			if k%2 == 0 {
				turns = append(turns, noise(r, 32<<10)...)
			} else {
				turns = append(turns, prose(r, 32<<10)...)
			}
		}
		put(fmt.Sprintf("turns-%d", i), turns)
	}
	return all
})

// A sample is close to the whole, and its interval covers it.
func TestSample(t *testing.T) {
	dir := adversarial(t)
	o := Options{Engine: engine(), ZFS: []ZFS{{Recordsize: 8 << 10, Ashift: 9, Compression: "lz4"}}}
	whole, err := Compute(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	truth, covered := whole.Estimates[0].Ratio, 0
	seeds := codectest.Amount[uint64](10, 10, 20)
	for seed := range seeds {
		o.Sample, o.Seed = 2000, seed
		some, err := Compute(context.Background(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		e := some.Estimates[0]
		if some.Computed < 1990 || some.Computed > 2010 || e.Margin <= 0 {
			t.Errorf("%d records, %+v", some.Computed, e)
		}
		if d := (e.Ratio - truth) / truth; d > 0.02 || d < -0.02 {
			t.Errorf("seed %d: %.4f, in truth %.4f", seed, e.Ratio, truth)
		}
		if e.Ratio-e.Margin <= truth && truth <= e.Ratio+e.Margin {
			covered++
		}
	}
	t.Logf("%d records, ratio %.3f; %d of %d intervals cover it", whole.Records, truth, covered, seeds)
	if covered < int(seeds)-1 {
		t.Errorf("%d of %d intervals cover the truth", covered, seeds)
	}
}
