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
func btrfsSettings() (list []Btrfs) {
	names := []string{"zstd:3", "zlib:3", "lzo"}
	if os.Getenv("CINCH_DISK_DIR") != "" {
		names = []string{"zstd:1", "zstd:3", "zstd:9", "zlib:1", "zlib:3", "zlib:9", "lzo"}
	}
	for _, name := range names {
		list = append(list, Btrfs{Compression: name}, Btrfs{Compression: name, Force: true})
	}
	return list
}

// btrfsLimit is what the product promises.
func btrfsLimit(b Btrfs) float64 {
	if strings.HasPrefix(b.Compression, "zstd") {
		return 0.005
	}
	return 0.01
}
