// Example shadow tries out a PostgreSQL server on a compressed filesystem. Production runs on this machine's
// own disk. There are two copies of it from base backups: the control on btrfs without compression, and the
// test on btrfs with compress-force=zstd:3. `cinch shadow` runs in front of production, mirrors the clients'
// requests to both copies, and reports the test's size, whether its data is the same, and its speed.
//
//	sudo go run ./examples/shadow
//
//	pgbench, events, reports -> cinch shadow -> production
//	                                +-> control  btrfs
//	                                +-> test     btrfs, zstd
//
// Everything is in one temporary directory, including the files that contain the filesystems. It is removed
// at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

type options struct {
	scale    int
	events   int
	rate     float64
	duration time.Duration
	batch    time.Duration
	alike    time.Duration
	options  string
	fsync    bool
	cinch    string
	page     string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("shadow", flag.ContinueOnError)
	f.IntVar(&o.scale, "scale", 8, "pgbench's scale: 15 MB each")
	f.IntVar(&o.events, "events", 150_000, "existing JSON events, of about 700 bytes each")
	f.Float64Var(&o.rate, "rate", 40, "pgbench transactions a second; also twice as many reads and half as many events")
	f.DurationVar(&o.duration, "duration", 4*time.Minute, "longest run time of the clients; a verdict ends it earlier")
	f.DurationVar(&o.batch, "batch", 2*time.Second, "cinch shadow's --batch")
	f.DurationVar(&o.alike, "aa", 0, "run time of an A/A phase before that, with both copies on uncompressed btrfs: it removes the copies' own difference from the verdict")
	f.StringVar(&o.options, "mount", "compress-force=zstd:3", "mount options of the test's btrfs; the control's is uncompressed")
	f.BoolVar(&o.fsync, "fsync", true, "PostgreSQL's fsync setting")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	f.StringVar(&o.page, "html", "shadow.html", "file for the page; it must not exist")
	if err := rig.ParseFlags(f, args, "PostgreSQL on a compressed btrfs, judged by its traffic. Needs root."); err != nil {
		return o, err
	}
	if o.scale < 1 || o.events < 1 || o.rate <= 0 || o.duration <= 0 || o.alike < 0 || o.batch < 100*time.Millisecond {
		err = errors.New("--scale and --events must be at least 1, --batch at least 100ms, --rate and --duration more than 0, --aa not negative")
	}
	return o, err
}

// run runs the example and returns its results.
func run(ctx context.Context, args []string, out, progress io.Writer) (_ *outcome, err error) {
	o, err := parseOptions(args)
	if err != nil {
		return nil, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	work, cinch, err := rig.Workspace(o.cinch)
	if err != nil {
		return nil, err
	}
	o.cinch = cinch
	c := &cell{o: o, work: work, progress: progress, ports: map[string]string{}}
	defer func() { err = errors.Join(err, c.remove()) }()
	if err := c.build(ctx); err != nil {
		return nil, err
	}
	if err := c.judgeMachines(ctx); err != nil {
		return nil, err
	}
	if err := c.copies(ctx, "noatime,"+o.options); err != nil {
		return nil, err
	}
	got, err := c.mirror(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.compare(ctx, got); err != nil {
		return nil, err
	}
	return got, got.print(out)
}
