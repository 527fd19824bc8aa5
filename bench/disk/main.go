// Command disk compares the estimates of internal/estimate/disk with what filesystems store for a real PostgreSQL
// directory: btrfs in loop mounts (needs root, btrfs-progs, btrfs-compsize) and a pool of ZFS in user space
// (test/zfs). It also compares samples of the directory with the whole. It writes to bench/results/disk.md,
// between the markers of each part.
//
//	go run ./bench/disk [--part btrfs,sample,zfs] [--dir DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/test/rig"
)

type options struct {
	parts   string
	dir     string
	work    string
	results string
	scale   int
	events  int
}

func main() {
	var o options
	flag.StringVar(&o.parts, "part", "btrfs,sample,zfs", "parts to measure, separated by commas")
	flag.StringVar(&o.dir, "dir", "", "data directory to use; empty: create one with PostgreSQL")
	flag.StringVar(&o.work, "work", os.TempDir(), "work directory; needs five times the data directory's size")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results")
	flag.IntVar(&o.scale, "scale", 15, "pgbench's")
	flag.IntVar(&o.events, "events", 300_000, "rows of the table with JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/disk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	work, err := os.MkdirTemp(o.work, "cinch-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	o.work = work
	if o.dir == "" {
		if err := o.postgres(); err != nil {
			return err
		}
	}
	measure := map[string]func(context.Context, *options) (string, error){"btrfs": btrfs, "sample": sample, "zfs": pools}
	for _, part := range strings.Split(o.parts, ",") {
		f, ok := measure[part]
		if !ok {
			return fmt.Errorf("unknown part %q", part)
		}
		text, err := f(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		fmt.Print(text)
		if err := rig.ReplacePart(filepath.Join(o.results, "disk.md"), part, text); err != nil {
			return err
		}
	}
	return nil
}

// compute runs the product's estimate.
func (o *options) compute(ctx context.Context, run disk.Options) (*disk.Result, error) {
	z, ok := libzstd.New()
	if !ok {
		return nil, fmt.Errorf("needs libzstd: build with cgo")
	}
	run.Engine = codec.New(codec.Options{Zstd: z})
	return disk.Compute(ctx, o.dir, run)
}

// about describes the directory.
func (o *options) about(r *disk.Result) string {
	return fmt.Sprintf("%d files, %d bytes in them.\n\n", r.Files, r.Bytes)
}
