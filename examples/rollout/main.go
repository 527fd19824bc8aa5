// Example rollout moves a PostgreSQL cell, a primary and two standbys on ext4, to btrfs with
// compress-force=zstd:3, while pgbench and clients of a bank work through `cinch serve --postgres`. `cinch
// rollout run` moves the standbys first and the primary last. Then the example checks that every committed
// transaction exists exactly once, and reports how long clients paused and how large the new nodes are.
//
//	sudo go run ./examples/rollout
//
//	pgbench, bank -> cinch serve --postgres -> a ext4   =>   a2 btrfs, zstd
//	                                           +- b ext4  =>   +- b2 btrfs, zstd
//	                                           +- c ext4  =>   +- c2 btrfs, zstd
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
	got, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil {
		err = got.wrong()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

type options struct {
	scale   int
	events  int
	clients int
	tellers int
	rate    float64
	after   time.Duration
	options string
	fsync   bool
	cinch   string
	page    string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("rollout", flag.ContinueOnError)
	f.IntVar(&o.scale, "scale", 20, "pgbench's scale: 15 MB each")
	f.IntVar(&o.events, "events", 200_000, "existing JSON events, of about 500 bytes each")
	f.IntVar(&o.clients, "clients", 16, "clients of pgbench, with prepared statements")
	f.IntVar(&o.tellers, "tellers", 4, "clients of the bank")
	f.Float64Var(&o.rate, "rate", 200, "pgbench transactions a second")
	f.DurationVar(&o.after, "after", time.Minute, "how long clients continue after the move; the report has the new nodes' sizes at that time")
	f.StringVar(&o.options, "mount", "compress-force=zstd:3", "mount options of the new nodes' btrfs")
	f.BoolVar(&o.fsync, "fsync", true, "PostgreSQL's fsync setting")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	f.StringVar(&o.page, "html", "rollout.html", "file for the page")
	about := `A PostgreSQL cell moves from ext4 to compressed btrfs, node by node, under load. Needs root.

Example:

  sudo go run ./examples/rollout --scale 100 --rate 500 --after 10m --html moved.html`
	if err := rig.ParseFlags(f, args, about); err != nil {
		return o, err
	}
	if o.scale < 1 || o.events < 1 || o.clients < 1 || o.tellers < 1 || o.rate <= 0 || o.after < 0 {
		err = errors.New("--scale, --events, --clients and --tellers must be at least 1, --rate more than 0, --after not negative")
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
	c := &cell{o: o, work: work, progress: progress}
	defer func() { err = errors.Join(err, c.remove()) }()
	if err := c.install(cinch); err != nil {
		return nil, err
	}
	if err := c.build(ctx); err != nil {
		return nil, err
	}
	got, err := c.move(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.verify(ctx, got); err != nil {
		return nil, err
	}
	return got, errors.Join(got.print(out), got.write(o.page))
}
