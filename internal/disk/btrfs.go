package disk

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// Btrfs is how a filesystem is mounted.
type Btrfs struct {
	Compression string // "off", "zstd", "zstd:3", "zlib:3", "lzo"
	Force       bool   // compress-force

	alg   string
	level int
}

const (
	btrfsUnit   = 128 << 10 // compressed together
	btrfsChunk  = 512 << 10 // whose rest is raw when a unit gains nothing
	btrfsBlock  = 4096
	btrfsInline = 2048 // most bytes of a small file that are held in the tree
)

// Prepare checks the settings. It has to be called once.
func (b *Btrfs) Prepare() error {
	name, number, found := strings.Cut(b.Compression, ":")
	level := 3
	if found {
		var err error
		if level, err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("%w: %q", ErrSetting, b.Compression)
		}
	}
	most := map[string]int{"off": 0, "none": 0, "zstd": 15, "zlib": 9, "lzo": 0}
	if limit, ok := most[name]; !ok || found && (level < 1 || level > limit) {
		return fmt.Errorf("%w: %q", ErrSetting, b.Compression)
	}
	b.alg, b.level = name, level
	return nil
}

// btrfsFile is the state of an inode: it may be marked as not worth the trouble. Beside
// that, without force, the beginning of what is written out at once decides about all of it.
type btrfsFile struct {
	size    int64
	marked  bool
	written int64 // the range that is written out at once, by its number, from 1 on
	refused bool  // by the heuristic, for that range
}

// btrfsRange is the most that is written out at once.
const btrfsRange = 128 << 20

// chunk computes one chunk of up to 512 KiB of a file at a place. data is what is written;
// its length on disk is whole blocks.
func (b *Btrfs) chunk(c *compressor, f *btrfsFile, at int64, data []byte) (physical int) {
	if b.alg == "off" || b.alg == "none" {
		return b.raw(f, data)
	}
	for len(data) > 0 {
		unit := data[:min(len(data), btrfsUnit)]
		small := len(unit) <= btrfsBlock && (at > 0 || int64(len(unit)) < f.size)
		if small || !b.tries(f, unit) {
			return physical + b.raw(f, data)
		}
		n, ok := b.compress(c, unit)
		if ok && at == 0 && f.size <= btrfsBlock && n <= btrfsInline {
			return n
		}
		if !ok || roundUp(n, btrfsBlock)+btrfsBlock > roundUp(len(unit), btrfsBlock) {
			f.marked = f.marked || !b.Force
			return physical + b.raw(f, data)
		}
		physical += roundUp(n, btrfsBlock)
		data, at = data[len(unit):], at+int64(len(unit))
	}
	return physical
}

// zstdMagic is in what the kernel writes, and not in our payloads.
const zstdMagic = 4

func (b *Btrfs) compress(c *compressor, unit []byte) (int, bool) {
	switch b.alg {
	case "zlib":
		return c.pagesDeflated(unit, b.level)
	case "lzo":
		return c.sectorsLZO(unit)
	}
	return c.length(unit, codec.Setting{Codec: codec.Zstd, Level: b.level}, zstdMagic)
}

// gaveUp is what the kernel checks behind each page: more is out than in.
func gaveUp(in, out int) bool { return in > 2*btrfsBlock && in < out }

// pagesDeflated is fs/btrfs/zlib.c: one page in at a time, and Z_SYNC_FLUSH behind each, but
// where the flush ends with the page that it writes to: then the marker is left out.
func (c *compressor) pagesDeflated(unit []byte, level int) (int, bool) {
	d := &c.deflate
	d.start(unit, level)
	d.bits = 8 * zlibHeader
	out := 0 // bytes that have left deflate
	drain := func() (full bool) {
		room := btrfsBlock - out%btrfsBlock
		n := min(d.bits/8-out, room)
		out += n
		return n == room
	}
	for at := 0; at < len(unit); {
		if out == 0 || !drain() { // else nothing is taken this time
			at = min(at+btrfsBlock, len(unit))
			d.feed(at)
			if !drain() {
				d.bits = roundUp(d.bits+3, 8) + 32 // an empty stored block
				drain()
			}
		}
		if gaveUp(at, out) {
			return 0, false
		}
	}
	n := roundUp(d.bits+3+flateFixedEnd, 8)/8 + zlibTrailer
	return n, n < len(unit)
}

// sectorsLZO is fs/btrfs/lzo.c: a length of all, and for each sector its length, which does
// not go over the end of a sector.
func (c *compressor) sectorsLZO(unit []byte) (int, bool) {
	const word = 4
	out := word
	for at := 0; at < len(unit); {
		sector := unit[at:min(at+btrfsBlock, len(unit))]
		out += word + c.lzo.length(sector)
		if left := roundUp(out, btrfsBlock) - out; left < word {
			out += left
		}
		at += len(sector)
		if gaveUp(at, out) {
			return 0, false
		}
	}
	return out, true
}

func (b *Btrfs) raw(f *btrfsFile, data []byte) int {
	if f.size <= btrfsInline && int64(len(data)) == f.size {
		return len(data)
	}
	return roundUp(len(data), btrfsBlock)
}

func (b *Btrfs) tries(f *btrfsFile, unit []byte) bool {
	return b.Force || !f.marked && !f.refused && compressible(unit)
}

// The kernel's heuristic looks at 16 bytes of every 256.
const (
	probeEvery = 256
	probeBytes = 16

	setSmall    = 64 // different bytes: fewer compress
	coreLow     = 64 // bytes that make up 90 %: so many or fewer compress
	coreHigh    = 200
	entropyGood = 65 // of 100
	entropyBad  = 80
)

func compressible(data []byte) bool {
	data = data[:min(len(data), btrfsUnit)]
	probe := make([]byte, 0, btrfsUnit/probeEvery*probeBytes)
	for at := 0; at+probeBytes <= len(data); at += probeEvery {
		probe = append(probe, data[at:at+probeBytes]...)
	}
	if half := len(probe) / 2; half == 0 || bytes.Equal(probe[:half], probe[half:2*half]) {
		return true
	}
	var counts [256]int
	for _, c := range probe {
		counts[c]++
	}
	different := 0
	for _, n := range counts {
		if n > 0 {
			different++
		}
	}
	if different < setSmall {
		return true
	}
	sorted := counts[:]
	slices.SortFunc(sorted, func(a, b int) int { return b - a })
	switch core := coreSet(sorted, len(probe)); {
	case core <= coreLow:
		return true
	case core >= coreHigh:
		return false
	}
	return entropy(sorted, len(probe)) < entropyBad
}

// coreSet is how many different bytes make up 90 %.
func coreSet(sorted []int, total int) int {
	most, sum := total*90/100, 0
	for i, n := range sorted {
		if i >= coreHigh || n == 0 {
			return i
		}
		sum += n
		if sum > most {
			return max(i, coreLow)
		}
	}
	return len(sorted)
}

// entropy is Shannon's in percent of the most, in the kernel's integers.
func entropy(sorted []int, total int) int {
	base, sum := log4(total), 0
	for _, n := range sorted {
		if n > 0 {
			sum += n * (base - log4(n))
		}
	}
	return sum / total * 100 / (8 * log4(2))
}

// log4 is four times the logarithm to the base 2, rounded down.
func log4(n int) int {
	v := uint64(n)
	return bits.Len64(v*v*v*v) - 1
}
