// Example tarantool runs a small cluster on your own machine and runs the published load test
// on it: a router (`cinch serve`), a master, a read-only replica, and a packer.
//
//	go run ./examples/tarantool          the whole test: half a minute of load, and checks
//	go run ./examples/tarantool --keep   the same, and leaves the cluster running
//
// Every program is a separate process. It needs `tarantool` (scripts/servers install tarantool).
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
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

type options struct {
	users    int
	writes   int
	duration time.Duration
	before   int
	setting  string
	noDict   bool
	k6       string
	keep     bool
	json     bool
	cinch    string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("tarantool", flag.ContinueOnError)
	f.IntVar(&o.users, "users", 10, "virtual users")
	f.IntVar(&o.writes, "writes", 100_000, "largest number of documents to write")
	f.DurationVar(&o.duration, "duration", 30*time.Second, "longest time to write")
	f.IntVar(&o.before, "before", 5000, "documents written before the router starts, for the packer")
	f.StringVar(&o.setting, "setting", "zstd-3", "codec and level")
	f.BoolVar(&o.noDict, "no-dictionary", false, "compress without a dictionary")
	f.StringVar(&o.k6, "k6", "", "a k6 program with the extension in examples/tarantool/k6; it replaces the example's own load generator")
	f.BoolVar(&o.keep, "keep", false, "leave the cluster running until you press Ctrl-C")
	f.BoolVar(&o.json, "json", false, "print the results as JSON")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	if err := rig.ParseFlags(f, args, "A Tarantool cluster with a router that compresses fields, a packer, the published load test, and checks."); err != nil {
		return o, err
	}
	if o.users < 1 || o.writes < 1 || o.duration <= 0 || o.before < 1 {
		err = errors.New("--users, --writes, --before and --duration must be more than 0")
	}
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	work, cinch, err := rig.Workspace(o.cinch)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	o.cinch = cinch
	c := &cluster{o: o, work: work, out: out}
	defer c.stop()
	if err := c.start(ctx); err != nil {
		return err
	}
	r, err := c.test(ctx)
	if err != nil {
		return err
	}
	if err := c.show(r); err != nil || !o.keep {
		return err
	}
	c.say("\nrouter %s (to the replica %s), master %s, replica %s; Ctrl-C ends all", c.router, c.reader, c.master.Addr, c.replica.Addr)
	<-ctx.Done()
	return nil
}
