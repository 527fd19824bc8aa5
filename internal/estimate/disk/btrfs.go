package disk

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// Btrfs holds the mount options of a filesystem.
type Btrfs struct {
	Compression string // "off", "zstd", "zstd:3", "zlib:3", "lzo"
	Force       bool   // compress-force

	alg      string
	level    int
	accuracy accuracy
}

// Sizes of the parts into which btrfs splits files.
const (
	btrfsUnit   = 128 << 10 // compressed together
	btrfsChunk  = 512 << 10 // its rest is raw when a unit gains nothing
	btrfsBlock  = 4096
	btrfsInline = 2048 // maximum size of a small file stored in the tree
)

// gaveUp reports whether btrfs gives up: after each page it checks if output exceeds input.
func gaveUp(in, out int) bool { return in > 2*btrfsBlock && in < out }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Prepare checks the settings. It must be called once.
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
	b.alg, b.level, b.accuracy = name, level, btrfsAccuracy(name, b.Force)
	return nil
}

// btrfsFile is the state of an inode, which may be marked as not worth compressing. In addition, without
// force, the beginning of each range that is written at once decides about all of the range.
type btrfsFile struct {
	size    int64
	marked  bool
	written int64 // number, from 1, of the range that is written at once
	refused bool  // by the heuristic, for that range
}

// btrfsRange is the maximum that is written at once.
const btrfsRange = 128 << 20

// chunk computes one chunk of up to 512 KiB of a file at an offset. It returns the size on disk of data, in
// whole blocks.
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
		physical += b.accuracy.roundUp(n, btrfsBlock)
		data, at = data[len(unit):], at+int64(len(unit))
	}
	return physical
}

// zstdMagic is the length of the magic that the kernel writes and Cinch's payloads lack.
const zstdMagic = 4

func (b *Btrfs) compress(c *compressor, unit []byte) (int, bool) {
	switch b.alg {
	case "zlib":
		n, ok := c.deflate.pages(unit, b.level)
		return n, ok && n < len(unit)
	case "lzo":
		n, ok := lzoSectors(&c.match, unit)
		return b.accuracy.length(n), ok
	}
	return c.length(unit, codec.Setting{Codec: codec.Zstd, Level: b.level}, zstdMagic)
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
