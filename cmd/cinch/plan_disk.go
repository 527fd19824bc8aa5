package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/disk"
	"github.com/cinch-layer/cinch/internal/ui"
)

type diskOptions struct {
	filesystem  string
	compression []string
	recordsize  []string
	ashift      int
	raidz       string
	force       bool
	sample      int
	growth      string
}

func (o *diskOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.filesystem, "disk", "", "compute what `zfs` or btrfs would store of a directory")
	f.StringSliceVar(&o.compression, "compression", nil, "with --disk: `LIST` of settings, as in lz4,zstd-3 or zstd:1,zlib:3 (default: usual ones)")
	f.StringSliceVar(&o.recordsize, "recordsize", []string{"8KiB", "16KiB", "64KiB", "128KiB"}, "with --disk zfs: `LIST` of record sizes")
	f.IntVar(&o.ashift, "ashift", 12, "with --disk zfs: sectors of 2^`N` bytes")
	f.StringVar(&o.raidz, "raidz", "", "with --disk zfs: `PARITY/DISKS`, as in 1/3, for what blocks take with their parity")
	f.BoolVar(&o.force, "force", false, "with --disk btrfs: compress-force")
	f.IntVar(&o.sample, "sample", 4000, "with --disk: compute `N` records, spread over all; 0 for all of them")
	f.StringVar(&o.growth, "growth", "", "with --disk: `SIZE` by which the data grows each day, for the days until 80% are in use")
}

// diskReport is a contract: fields are added, never renamed.
type diskReport struct {
	Path       string             `json:"path"`
	Filesystem string             `json:"filesystem"`
	Results    []*disk.Result     `json:"results"` // one for each recordsize
	Space      *diskSpace         `json:"space,omitempty"`
	Advice     []string           `json:"advice"`
	Days       map[string]float64 `json:"days_until_80_percent,omitempty"` // by setting
}

// diskSpace is the filesystem that the directory is on now, in bytes.
type diskSpace struct {
	Total int64 `json:"total_bytes"`
	Used  int64 `json:"used_bytes"`
}

func runDisk(ctx context.Context, o planOptions) error {
	if len(o.from) != 1 {
		return ui.WithHint(errors.New("--disk takes one directory"), "for example --disk zfs /var/lib/postgresql/15/main")
	}
	if o.disk.sample < 0 {
		return errors.New("--sample can't be negative")
	}
	runs, err := o.disk.runs()
	if err != nil {
		return err
	}
	progress := ui.NewProgress(o.errs)
	defer progress.Clear()
	r := diskReport{Path: o.from[0], Filesystem: o.disk.filesystem, Space: spaceOf(o.from[0])}
	for _, run := range runs {
		run.Engine, run.Sample, run.Seed, run.Progress = newEngine(), o.disk.sample, o.seed, progress.Show
		result, err := disk.Compute(ctx, r.Path, run)
		switch {
		case errors.Is(err, disk.ErrSetting):
			return ui.WithHint(err, "zfs has lz4, zstd-1 to zstd-19, gzip-1 to gzip-9 and off; btrfs has zstd:1 to zstd:15, zlib:1 to zlib:9, lzo and off")
		case err != nil:
			return err
		}
		r.Results = append(r.Results, result)
	}
	progress.Clear()
	r.Advice = o.disk.advice(r.Path)
	if err := r.days(o.disk.growth); err != nil {
		return err
	}
	if o.asJSON {
		return writeJSON(o.out, r)
	}
	return r.print(o.out)
}

// runs are the settings, one run for each recordsize.
func (o *diskOptions) runs() (list []disk.Options, err error) {
	switch o.filesystem {
	case "btrfs":
		run := disk.Options{}
		for _, c := range orElse(o.compression, "lzo", "zlib:3", "zstd:1", "zstd:3", "zstd:9") {
			run.Btrfs = append(run.Btrfs, disk.Btrfs{Compression: c, Force: o.force})
		}
		return []disk.Options{run}, nil
	case "zfs":
		parity, disks := 0, 0
		if _, err := fmt.Sscanf(o.raidz, "%d/%d", &parity, &disks); o.raidz != "" && (err != nil || disks == 0) {
			return nil, ui.WithHint(fmt.Errorf("--raidz %q", o.raidz), "write parity and disks, as in 1/3")
		}
		for _, text := range o.recordsize {
			var size config.Bytes
			if err := size.UnmarshalText([]byte(text)); err != nil {
				return nil, fmt.Errorf("--recordsize: %w", err)
			}
			run := disk.Options{}
			for _, c := range orElse(o.compression, "lz4", "zstd-1", "zstd-3", "zstd-9", "gzip-6") {
				run.ZFS = append(run.ZFS, disk.ZFS{Recordsize: int(size), Ashift: o.ashift, Compression: c, CapToSector: true, Disks: disks, Parity: parity})
			}
			list = append(list, run)
		}
		return list, nil
	}
	return nil, ui.WithHint(fmt.Errorf("--disk %q", o.filesystem), "write zfs or btrfs")
}

func orElse(list []string, more ...string) []string {
	if len(list) > 0 {
		return list
	}
	return more
}

func spaceOf(path string) *diskSpace {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Blocks == 0 {
		return nil
	}
	total := int64(st.Blocks) * st.Bsize
	return &diskSpace{Total: total, Used: total - int64(st.Bfree)*st.Bsize}
}

// fullShare is from where on copy-on-write filesystems get slow.
const fullShare = 0.80

// days computes when the data, which grows by so much a day, fills 80 % of a filesystem of
// the size of the present one, if nothing else does.
func (r *diskReport) days(growth string) error {
	if growth == "" || r.Space == nil {
		return nil
	}
	var perDay config.Bytes
	if err := perDay.UnmarshalText([]byte(growth)); err != nil || perDay <= 0 {
		return ui.WithHint(fmt.Errorf("--growth %q", growth), "write the bytes of a day before compression, as in 5GiB")
	}
	r.Days = map[string]float64{}
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			used := float64(r.Space.Used) - float64(result.Bytes) + float64(result.Bytes)/e.Ratio
			r.Days[e.Setting] = max(fullShare*float64(r.Space.Total)-used, 0) / (float64(perDay) / e.Ratio)
		}
	}
	return nil
}

func (r *diskReport) print(out io.Writer) error {
	first := r.Results[0]
	fmt.Fprintf(out, "%s: %s, %s\n\n", r.Path, count(int(first.Files), "file", "files"), ui.Size(first.Bytes))
	tool := map[string]string{"zfs": "zfs get compressratio", "btrfs": "compsize"}[r.Filesystem]
	header := []string{"setting", "takes", "ratio", "+-", tool}
	if r.Space != nil {
		header = append(header, "in use")
	}
	if r.Days != nil {
		header = append(header, "days to 80%")
	}
	raidz := first.Estimates[0].RaidBytes > 0
	if raidz {
		header = append(header, "with parity")
	}
	var rows [][]string
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			row := []string{e.Setting, ui.Size(int64(float64(result.Bytes) / e.Ratio)), fmt.Sprintf("%.2f", e.Ratio), fmt.Sprintf("%.2f", e.Margin), e.Printed}
			if r.Space != nil {
				used := float64(r.Space.Used) - float64(result.Bytes) + float64(result.Bytes)/e.Ratio
				row = append(row, fmt.Sprintf("%.0f%%", 100*max(used, 0)/float64(r.Space.Total)))
			}
			if r.Days != nil {
				row = append(row, fmt.Sprintf("%.0f", r.Days[e.Setting]))
			}
			if raidz {
				row = append(row, ui.Size(e.RaidBytes))
			}
			rows = append(rows, row)
		}
	}
	if err := ui.Table(out, header, rows); err != nil {
		return err
	}
	if r.Space != nil {
		fmt.Fprintf(out, "\nThe filesystem that it is on now: %s, %.0f%% in use.\n", ui.Size(r.Space.Total), 100*float64(r.Space.Used)/float64(r.Space.Total))
	}
	if first.Computed < first.Records {
		fmt.Fprintf(out, "Computed on a sample (--sample 0 for all); margins are of 95%%.\n")
	}
	for _, result := range r.Results[:1] {
		if result.Unread > 0 {
			fmt.Fprintf(out, "%s could not be read and are not in it.\n", count(int(result.Unread), "file", "files"))
		}
	}
	for _, a := range r.Advice {
		fmt.Fprintf(out, "- %s\n", a)
	}
	return nil
}

// advice is what experience says about the directory's database on the filesystem.
func (o *diskOptions) advice(path string) (list []string) {
	postgres := 0
	if text, err := os.ReadFile(filepath.Join(path, "PG_VERSION")); err == nil {
		postgres, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if o.filesystem == "zfs" {
		if o.ashift >= 12 {
			list = append(list, "records of 8K on 4K sectors can't get above 2.0, whatever compresses them")
		}
		list = append(list,
			"the ARC holds blocks compressed: the ratio multiplies what fits into memory, too",
			"a change of compression or recordsize affects what is written from then on: 'zfs rewrite' (2.3.4 and newer) compresses what is there anew, in place, but for the recordsize, and snapshots keep the old blocks")
	} else {
		list = append(list,
			"this is the state after a restore: random writes leave parts of old extents behind, and the ratio falls with time (5.8 to 3.6 after 80 s of pgbench)",
			"files that were extended with fallocate, and those with nodatacow, are never compressed")
		if postgres >= 16 {
			list = append(list, "PostgreSQL 16 and newer extends files with fallocate: set file_extend_method = write_zeros where the version has it, and mount with compress-force")
		}
	}
	if postgres > 0 {
		list = append(list, "PostgreSQL: on a filesystem that copies on write pages can't be torn, if its records are not smaller than a page: full_page_writes = off saves most of the WAL; wal_init_zero = off and wal_recycle = off, too")
	}
	return append(list, "above 80% in use filesystems that copy on write get slow: plan for less")
}
