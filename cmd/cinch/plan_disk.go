package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/internal/estimate/disk/report"
	"github.com/cinch-layer/cinch/internal/estimate/disk/tempbtrfs"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

type diskOptions struct {
	filesystem  string
	compression []string
	recordsize  []string
	ashift      int
	raidz       string
	force       bool
	exact       bool
	sample      int
	growth      string
	skip        []string
}

func (o *diskOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.filesystem, "disk", "", "compute the space that the source, a directory, would take on the filesystem `FS`, zfs or btrfs")
	f.StringSliceVar(&o.compression, "compression", nil, "`LIST` of settings, as in lz4,zstd-3 or zstd:1,zlib:3 (default: common ones)")
	f.StringSliceVar(&o.recordsize, "recordsize", []string{"8KiB", "16KiB", "64KiB", "128KiB"}, "ZFS: `LIST` of record sizes")
	f.IntVar(&o.ashift, "ashift", 12, "ZFS: sectors of 2^`N` bytes")
	f.StringVar(&o.raidz, "raidz", "", "ZFS: raidz layout, `PARITY/DISKS`, as in 1/3, to include parity")
	f.BoolVar(&o.force, "force", false, "btrfs: as mounted with compress-force")
	f.BoolVar(&o.exact, "exact", false, "btrfs: write the sample to a filesystem on a loop device, and measure the space that it takes; needs root, mkfs.btrfs, and room in TMPDIR for the sample")
	f.IntVar(&o.sample, "sample", 4000, "compute a sample of `N` records; 0 for all")
	f.StringVar(&o.growth, "growth", "", "`SIZE` by which the data grows each day, to compute the days until 80% are in use")
	f.StringSliceVar(&o.skip, "skip", nil, "`LIST` of names in the directory to leave out, as in pg_wal")
}

func runDisk(ctx context.Context, o planOptions) error {
	runs, perDay, err := o.parseDisk()
	if err != nil {
		return wrongUsage(err)
	}
	if o.disk.exact {
		if err := tempbtrfs.Check(); err != nil {
			return exactHint(err)
		}
	}
	progress := terminal.NewProgress(o.errs)
	defer progress.Clear()
	r := report.New(o.from[0], o.disk.filesystem)
	for _, run := range runs {
		run.Engine, run.Sample, run.Seed, run.Skip, run.Progress = newEngine(), o.disk.sample, o.seed, o.disk.skip, progress.Show
		if o.disk.exact {
			run.Mount = tempbtrfs.Mount
		}
		result, err := disk.Compute(ctx, r.Path, run)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return terminal.WithHint(err, "give an existing directory or file")
		case errors.Is(err, disk.ErrUnread):
			return terminal.WithHint(err, "run it as the user that owns the files, or as root")
		case errors.Is(err, disk.ErrEmpty):
			return terminal.WithHint(err, "the directory has no files with content; symbolic links in it are not followed: give their targets")
		case errors.Is(err, disk.ErrLayout):
			return wrongUsage(terminal.WithHint(err, "recordsize is a power of two from 512 to 16MiB, ashift from 9 to 16, raidz has parity 1 to 3 and more disks than that"))
		case errors.Is(err, disk.ErrSetting):
			return wrongUsage(terminal.WithHint(err, "zfs has lz4, zstd-1 to zstd-19, gzip-1 to gzip-9 and off; btrfs has zstd:1 to zstd:15, zlib:1 to zlib:9, lzo and off"))
		case err != nil:
			return exactHint(err)
		}
		r.Results = append(r.Results, result)
	}
	progress.Clear()
	r.Advise(report.Given{
		Recordsizes: o.disk.recordsize, Ashift: o.disk.ashift, Force: o.disk.force, GoZstd: nativeZstd() == nil,
	})
	r.Grow(int64(perDay))
	if err := o.writePage(new(plan.CreatedFiles), r.HTML); err != nil {
		return err
	}
	if o.asJSON {
		return writeJSON(o.out, r)
	}
	return r.Print(o.out)
}

// exactHint adds a hint on what --exact lacks.
func exactHint(err error) error {
	for what, hint := range map[error]string{
		tempbtrfs.ErrRoot:  "run it as root (in a container: with CAP_SYS_ADMIN), or leave out --exact to compute the result",
		tempbtrfs.ErrBtrfs: "load the module with 'modprobe btrfs', on Linux 5.8 or newer, or leave out --exact to compute the result",
		tempbtrfs.ErrLoop:  "load the module with 'modprobe loop', and give a container /dev/loop-control and /dev/loop*",
		tempbtrfs.ErrMkfs:  "install btrfs-progs",
		tempbtrfs.ErrSpace: "set TMPDIR to a directory with more room, or choose a smaller --sample: a record has up to 512 KiB",
	} {
		if errors.Is(err, what) {
			return terminal.WithHint(err, "%s", hint)
		}
	}
	return err
}

func (o *planOptions) parseDisk() (runs []disk.Options, perDay config.Bytes, err error) {
	if len(o.from) != 1 {
		return nil, 0, terminal.WithHint(errors.New("--disk takes one directory"), "for example --disk zfs /var/lib/postgresql/15/main")
	}
	if o.write != "" {
		return nil, 0, terminal.WithHint(errors.New("--disk writes no configuration"), "leave out --write; use --html or --json")
	}
	if o.disk.sample < 0 {
		return nil, 0, errors.New("--sample can't be negative")
	}
	if runs, err = o.disk.runs(); err != nil {
		return nil, 0, err
	}
	perDay, err = o.disk.perDay()
	return runs, perDay, err
}

// runs returns the settings, with one run per recordsize.
func (o *diskOptions) runs() (list []disk.Options, err error) {
	switch o.filesystem {
	case "btrfs":
		run := disk.Options{}
		for _, c := range orElse(o.compression, "lzo", "zlib:3", "zstd:1", "zstd:3", "zstd:9") {
			run.Btrfs = append(run.Btrfs, disk.Btrfs{Compression: c, Force: o.force})
		}
		return []disk.Options{run}, nil
	case "zfs":
		if o.force {
			return nil, terminal.WithHint(errors.New("compress-force is only for btrfs"), "leave --force out")
		}
		if o.exact {
			return nil, terminal.WithHint(errors.New("--exact is only for btrfs"), "leave it out: for ZFS the result is always computed")
		}
		parity, disks, err := o.disks()
		if err != nil {
			return nil, err
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
	return nil, terminal.WithHint(fmt.Errorf("--disk %q", o.filesystem), "write zfs or btrfs")
}

func orElse(list []string, more ...string) []string {
	if len(list) > 0 {
		return list
	}
	return more
}

// disks returns the parity and the number of disks of a RAIDZ; 0: none.
func (o *diskOptions) disks() (parity, disks int, err error) {
	if o.raidz == "" {
		return 0, 0, nil
	}
	before, after, _ := strings.Cut(o.raidz, "/")
	parity, err = strconv.Atoi(before)
	if err == nil {
		disks, err = strconv.Atoi(after)
	}
	if err != nil || disks == 0 {
		return 0, 0, terminal.WithHint(fmt.Errorf("--raidz %q", o.raidz), "write parity and disks, as in 1/3")
	}
	return parity, disks, nil
}

// perDay returns the growth in bytes before compression; 0: not given.
func (o *diskOptions) perDay() (config.Bytes, error) {
	var n config.Bytes
	if o.growth == "" {
		return 0, nil
	}
	if err := n.UnmarshalText([]byte(o.growth)); err != nil || n <= 0 {
		return 0, terminal.WithHint(fmt.Errorf("--growth %q", o.growth), "write the growth per day before compression, as in 5GiB")
	}
	return n, nil
}
