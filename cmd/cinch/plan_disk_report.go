package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/disk"
	"github.com/cinch-layer/cinch/internal/ui"
)

// diskReport is a contract: fields are added, never renamed.
type diskReport struct {
	Path       string             `json:"path"`
	Filesystem string             `json:"filesystem"`
	Results    []*disk.Result     `json:"results"` // one for each recordsize
	Space      *diskSpace         `json:"space,omitempty"`
	Advice     []string           `json:"advice"`
	OnBtrfs    bool               `json:"on_btrfs,omitempty"`              // now: then what it takes is known to compsize only
	Days       map[string]float64 `json:"days_until_80_percent,omitempty"` // by setting; "now": uncompressed, as it is
}

// diskSpace is the filesystem that the directory is on now, in bytes.
type diskSpace struct {
	Total int64 `json:"total_bytes"`
	Used  int64 `json:"used_bytes"`
}

const btrfsMagic = 0x9123683e

// spaceOf is the filesystem that a path is on. btrfs tells of files how long they are, never
// what they take, so nothing can be said of how much would be in use without them.
func spaceOf(path string) (space *diskSpace, onBtrfs bool) {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Blocks == 0 {
		return nil, false
	}
	if uint32(st.Type) == btrfsMagic {
		return nil, true
	}
	total := int64(st.Blocks) * int64(st.Bsize)
	return &diskSpace{Total: total, Used: total - int64(st.Bfree)*int64(st.Bsize)}, false
}

// used is how much would be in use if the files took so much in place of what they take now.
func (s *diskSpace) used(r *disk.Result, takes int64) int64 {
	return max(s.Used-r.Allocated+takes, 0)
}

// fullShare is from where on copy-on-write filesystems get slow.
const fullShare = 0.80

// days computes when the data, which grows by so much a day, fills 80 % of a filesystem of
// the size of the present one, if nothing else does.
func (r *diskReport) days(perDay config.Bytes) {
	if perDay == 0 || r.Space == nil {
		return
	}
	left := func(used int64, ratio float64) float64 {
		return max(fullShare*float64(r.Space.Total)-float64(used), 0) / (float64(perDay) / ratio)
	}
	r.Days = map[string]float64{"now": left(r.Space.Used, 1)}
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			r.Days[e.Setting] = left(r.Space.used(result, e.Takes()), e.Ratio)
		}
	}
}

func (r *diskReport) print(out io.Writer) error {
	first := r.Results[0]
	fmt.Fprintf(out, "%s: %s, %s\n\n", r.Path, count(int(first.Files), "file", "files"), ui.Size(first.Bytes))
	if err := ui.Table(out, r.header(), r.rows()); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if r.Space != nil {
		fmt.Fprintf(out, "The filesystem that it is on now: %s, %.0f%% in use", ui.Size(r.Space.Total), 100*float64(r.Space.Used)/float64(r.Space.Total))
		if r.Days != nil {
			fmt.Fprintf(out, ", and 80%% in %.0f days as it is", r.Days["now"])
		}
		fmt.Fprintln(out, ".")
	}
	if first.Computed < first.Records {
		fmt.Fprintln(out, "Computed on a sample (--sample 0 for all); margins are of 95%.")
	}
	if r.OnBtrfs {
		fmt.Fprintln(out, "It is on btrfs now: what it takes there is known to compsize, so nothing is said of space in use.")
	}
	for _, line := range leftOut(first) {
		fmt.Fprintln(out, line)
	}
	for _, a := range r.Advice {
		fmt.Fprintf(out, "- %s\n", a)
	}
	return nil
}

func (r *diskReport) parity() bool { return r.Results[0].Estimates[0].RaidBytes > 0 }

func (r *diskReport) header() []string {
	tool := map[string]string{"zfs": "zfs get compressratio", "btrfs": "compsize"}[r.Filesystem]
	header := []string{"setting", "takes", "ratio", "+-", tool}
	if r.Space != nil {
		header = append(header, "in use")
	}
	if r.Days != nil {
		header = append(header, "days to 80%")
	}
	if r.parity() {
		header = append(header, "with parity")
	}
	return header
}

func (r *diskReport) rows() (rows [][]string) {
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			row := []string{e.Setting, ui.Size(e.Takes()), fmt.Sprintf("%.2f", e.Ratio), fmt.Sprintf("%.2f", e.Margin), e.Printed}
			if r.Space != nil {
				row = append(row, fmt.Sprintf("%.0f%%", 100*float64(r.Space.used(result, e.Takes()))/float64(r.Space.Total)))
			}
			if r.Days != nil {
				row = append(row, fmt.Sprintf("%.0f", r.Days[e.Setting]))
			}
			if r.parity() {
				row = append(row, ui.Size(e.RaidBytes))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// leftOut says what the figures don't hold, or not as one may think.
func leftOut(r *disk.Result) (lines []string) {
	for _, l := range []struct {
		n              int64
		one, more, say string
	}{
		{r.Unread, "file or directory", "files or directories", "that could not be read"},
		{r.Changed, "file", "files", "that vanished meanwhile"},
		{r.Links, "symbolic link", "symbolic links", "(pg_wal and tablespaces often are): give their targets to have them"},
		{r.Mounts, "other filesystem", "other filesystems", "mounted below"},
	} {
		if l.n > 0 {
			lines = append(lines, fmt.Sprintf("Left out: %s %s.", count(int(l.n), l.one, l.more), l.say))
		}
	}
	if r.Fixed > 0 {
		lines = append(lines, fmt.Sprintf("Never compressed by btrfs: %s with nodatacow or once fallocated, %s.", count(int(r.Fixed), "file", "files"), ui.Size(r.FixedSize)))
	}
	return lines
}

// advice is what experience says about the directory's database on the filesystem.
func (o *diskOptions) advice(path string, r *disk.Result) []string {
	postgres := postgresVersion(path)
	list := o.zfsAdvice()
	if o.filesystem == "btrfs" {
		list = btrfsAdvice(postgres)
	}
	if o.filesystem == "btrfs" && r.Computed < r.Records && !o.force {
		list = append(list, "without --force btrfs gives up on a whole file when one part of it gains nothing, which a sample can't see: --sample 0 is exact")
	}
	if _, ok := libzstd.New(); !ok {
		list = append(list, "computed with zstd in Go, as this binary was built without libzstd: what the filesystem's own takes may differ by some percent")
	}
	if postgres > 0 {
		list = append(list, "PostgreSQL: on a filesystem that copies on write (and files without nodatacow) pages can't be torn, if its records are not smaller than a page: full_page_writes = off saves most of the WAL; wal_init_zero = off and wal_recycle = off, too")
	}
	return append(list, "above 80% in use filesystems that copy on write get slow: plan for less")
}

func (o *diskOptions) zfsAdvice() (list []string) {
	sector := 1 << o.ashift
	for _, text := range o.recordsize {
		var size config.Bytes
		if size.UnmarshalText([]byte(text)) != nil {
			continue
		}
		switch int(size) / sector {
		case 0, 1:
			list = append(list, fmt.Sprintf("records of %s on sectors of %s can't be compressed: a block takes whole sectors, but for the few that come out at 112 bytes or less", text, ui.Size(int64(sector))))
		case 2:
			list = append(list, fmt.Sprintf("records of %s on sectors of %s can't get above 2.0, whatever compresses them, but for the few that come out at 112 bytes or less", text, ui.Size(int64(sector))))
		}
	}
	return append(list,
		"the ARC holds blocks compressed: the ratio multiplies what fits into memory, too",
		"a change of compression or recordsize affects what is written from then on: 'zfs rewrite' (2.3.4 and newer) compresses what is there anew, in place, but for the recordsize, and snapshots keep the old blocks; replacing a node does both",
		"zstd here is newer than the 1.4.5 in ZFS: where blocks come out just at a sector's border that can make 2%")
}

func btrfsAdvice(postgres int) []string {
	list := []string{
		"this is the state after a restore: random writes leave parts of old extents behind, and the ratio falls with time (5.8 to 3.6 after 80 s of pgbench)",
		"files that were extended with fallocate, and those with nodatacow, are never compressed",
	}
	if postgres >= 16 {
		list = append(list, "PostgreSQL 16 and newer extends files with fallocate: set file_extend_method = write_zeros where the version has it, and mount with compress-force")
	}
	return list
}

// postgresVersion is of a data directory; 0: it is none.
func postgresVersion(path string) int {
	text, err := os.ReadFile(filepath.Join(path, "PG_VERSION"))
	if err != nil {
		return 0
	}
	version, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return version
}
