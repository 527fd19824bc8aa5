package disk

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// ZFS holds the properties of a dataset. Sizes are in bytes.
type ZFS struct {
	Recordsize  int
	Ashift      int    // 9 or 12: sectors of 512 or 4096 bytes
	Compression string // "off", "lz4", "zstd-3", "zstd-fast-5", "gzip-6"; "zle" is not supported

	// Disks and Parity describe a RAIDZ; 0: none.
	Disks, Parity int

	// NoEarlyAbort is for ZFS before 2.2, which runs zstd on everything.
	NoEarlyAbort bool
	// CapToSector is for ZFS 2.3 and newer, which rounds the maximum size of a compressed record down to
	// whole sectors.
	CapToSector bool

	alg      string
	level    int
	accuracy accuracy
}

// Early abort applies to records of at least this size, at this level and above.
const (
	abortBytes = 128 << 10
	abortLevel = 3
)

// embeddedMost is the maximum size of data embedded in a block pointer.
const embeddedMost = 112

// zstdHeader is the size of ZFS's own header before the frame: its length, level and version.
const zstdHeader = 8

// Prepare checks the settings. It must be called once.
func (z *ZFS) Prepare() error {
	if z.Recordsize < 512 || z.Recordsize > 16<<20 || z.Recordsize&(z.Recordsize-1) != 0 {
		return fmt.Errorf("%w: a recordsize of %d", ErrLayout, z.Recordsize)
	}
	if z.Ashift < 9 || z.Ashift > 16 {
		return fmt.Errorf("%w: an ashift of %d", ErrLayout, z.Ashift)
	}
	if z.Disks != 0 && (z.Parity < 1 || z.Parity > 3 || z.Disks <= z.Parity || z.Disks > 255) {
		return fmt.Errorf("%w: raidz%d of %d disks", ErrLayout, z.Parity, z.Disks)
	}
	name, number, found := strings.Cut(z.Compression, "-")
	if fast, ok := strings.CutPrefix(z.Compression, "zstd-fast-"); ok {
		return fmt.Errorf("%w: zstd-fast-%s is not supported; zstd-1 takes a little less space", ErrSetting, fast)
	}
	var err error
	if z.level = 0; found {
		if z.level, err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("%w: %q", ErrSetting, z.Compression)
		}
	}
	z.alg = name
	most := map[string]int{"off": 0, "on": 0, "lz4": 0, "zstd": 19, "gzip": 9}
	switch limit, ok := most[name]; {
	case !ok, found && (z.level < 1 || z.level > limit):
		return fmt.Errorf("%w: %q", ErrSetting, z.Compression)
	case name == "on":
		z.alg = "lz4"
	case name == "zstd" && !found:
		z.level = 3
	case name == "gzip" && !found:
		z.level = 6
	}
	z.accuracy = zfsAccuracy(z.alg)
	return nil
}

// Sector returns the smallest unit of writing, in bytes.
func (z *ZFS) Sector() int { return 1 << z.Ashift }

// Block is the size of a record of ZFS. Both sizes are 0 for a hole.
type Block struct{ Logical, Physical int }

// record computes one record, whose length is the logical one.
func (z *ZFS) record(c *compressor, data []byte) Block {
	size := len(data)
	if z.alg == "off" {
		return Block{size, size}
	}
	if isZero(data) {
		return Block{}
	}
	most := size - size/8
	if z.CapToSector {
		most = max(most-most%z.Sector(), embeddedMost)
	}
	n, ok := z.compress(c, data, most)
	if !ok || n > most {
		return Block{size, size}
	}
	if n <= embeddedMost {
		return Block{size, 0}
	}
	return Block{size, min(roundUp(n, z.Sector()), size)}
}

// compress returns the length of the compressed record, if it is at most most.
func (z *ZFS) compress(c *compressor, data []byte, most int) (int, bool) {
	switch z.alg {
	case "lz4":
		return lz4Record(&c.match, data, most)
	case "gzip":
		return c.deflate.whole(data, z.level), true
	}
	if !z.NoEarlyAbort && z.level >= abortLevel && len(data) >= abortBytes {
		if _, ok := lz4Record(&c.match, data, most); !ok {
			if n, ok := c.length(data, codec.Setting{Codec: codec.Zstd, Level: 1}, zstdBytes(len(data))); !ok || n > most {
				return 0, false
			}
		}
	}
	return c.length(data, codec.Setting{Codec: codec.Zstd, Level: z.level}, zstdBytes(len(data)))
}

// zstdBytes returns how much longer ZFS's frames are than Cinch's. They have no content size, but a byte for
// the window.
func zstdBytes(size int) int {
	switch {
	case size < 256:
		return zstdHeader
	case size < 1<<16+256:
		return zstdHeader - 1
	}
	return zstdHeader - 3
}

// Raidz returns the size of a block on a RAIDZ: each row of data gets parity additional sectors, and the sum is
// rounded up to a multiple of parity+1 sectors, so that no gap is too small to be used.
func Raidz(physical, sector, disks, parity int) int {
	if physical == 0 {
		return 0
	}
	s := (physical + sector - 1) / sector
	rows := (s + disks - parity - 1) / (disks - parity)
	return roundUp(s+parity*rows, parity+1) * sector
}

// fileRecord returns the record size of a file: its own size rounded up to 512 bytes if it is one record, or
// else the full recordsize, where the last record is padded with zeros.
func (z *ZFS) fileRecord(size int64) int {
	if size <= int64(z.Recordsize) {
		return roundUp(int(size), 512)
	}
	return z.Recordsize
}

// metadata estimates the bytes of indirect blocks and dnodes, which count as both logical and physical.
func (z *ZFS) metadata(files, blocks int64) int64 {
	indirect := int64(0)
	if blocks > 1 {
		perBlock := int64(roundUp(40*1024, z.Sector()))
		indirect = (blocks*perBlock + 1023) / 1024
	}
	return indirect + files*4096/32
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
