package disk

import (
	"os"
	"strings"

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

// btrfsSettings are few in the standard run, and all with CINCH_DISK_DIR.
func btrfsSettings() []Btrfs {
	some := []Btrfs{{Compression: "zstd:3"}, {Compression: "zstd:3", Force: true}, {Compression: "zlib:3"}}
	if os.Getenv("CINCH_DISK_DIR") != "" {
		some = append(some, Btrfs{Compression: "zstd:1"}, Btrfs{Compression: "zstd:9"}, Btrfs{Compression: "zlib:3", Force: true})
	}
	return some
}

// btrfsLimit is wider for zlib: the kernel flushes after each page, which ours does not. On
// a PostgreSQL directory that makes 6 %.
func btrfsLimit(b Btrfs) float64 {
	if strings.HasPrefix(b.Compression, "zlib") {
		if os.Getenv("CINCH_DISK_DIR") != "" {
			return 0.10
		}
		return 0.02
	}
	return 0.005
}
