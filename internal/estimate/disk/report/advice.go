package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Given holds the options that advice depends on.
type Given struct {
	Recordsizes []string // for ZFS, as given
	Ashift      int
	Force       bool // compress-force for btrfs
	GoZstd      bool // computed without libzstd
}

// Advise adds advice from experience for the directory's database on the filesystem.
func (r *Report) Advise(g Given) {
	postgres, first := postgresVersion(r.Path), r.Results[0]
	list := g.zfs()
	if r.Filesystem == "btrfs" {
		list = btrfsAdvice(postgres)
	}
	if r.Filesystem == "btrfs" && first.Computed < first.Records && !g.Force {
		list = append(list, "without --force btrfs stops compressing a file when one part of it gains nothing, which a sample can't show: --sample 0 is exact")
	}
	if g.GoZstd {
		list = append(list, "computed with zstd in Go, as this binary was built without libzstd: the filesystem's own zstd may differ by a few percent")
	}
	if postgres > 0 {
		list = append(list, "PostgreSQL: on a copy-on-write filesystem (and for files without nodatacow) pages can't be torn if records are at least as large as a page: full_page_writes = off saves most of the WAL; wal_init_zero = off and wal_recycle = off, too")
	}
	r.Advice = append(list, "above 80% in use copy-on-write filesystems get slow: plan for less")
}

func (g Given) zfs() (list []string) {
	sector := 1 << g.Ashift
	for _, text := range g.Recordsizes {
		var size config.Bytes
		if size.UnmarshalText([]byte(text)) != nil {
			continue
		}
		switch int(size) / sector {
		case 0, 1:
			list = append(list, fmt.Sprintf("records of %s on sectors of %s can't be compressed: a block takes whole sectors, except for the few of 112 bytes or less after compression", text, terminal.Size(int64(sector))))
		case 2:
			list = append(list, fmt.Sprintf("records of %s on sectors of %s can't get above 2.0 with any compression, except for the few of 112 bytes or less after it", text, terminal.Size(int64(sector))))
		}
	}
	return append(list,
		"the ARC holds blocks compressed: the ratio multiplies what fits into memory, too",
		"a change of compression or recordsize affects only new writes: 'zfs rewrite' (2.3.4 and newer) recompresses existing data in place, but not with another recordsize, and snapshots keep the old blocks; replacing a node applies both",
		"zstd here is newer than the 1.4.5 in ZFS: if compressed blocks end close to a sector's border, that can make 2%")
}

func btrfsAdvice(postgres int) []string {
	list := []string{
		"this is the state after a restore: random writes leave parts of old extents allocated, and the ratio falls with time (5.8 to 3.6 after 80 s of pgbench)",
		"files that were extended with fallocate, and those with nodatacow, are never compressed",
	}
	if postgres >= 16 {
		list = append(list, "PostgreSQL 16 and newer extends files with fallocate: set file_extend_method = write_zeros where the version has it, and mount with compress-force")
	}
	return list
}

// postgresVersion returns the version of a PostgreSQL data directory, or 0 for any other directory.
func postgresVersion(path string) int {
	text, err := os.ReadFile(filepath.Join(path, "PG_VERSION"))
	if err != nil {
		return 0
	}
	version, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return version
}
