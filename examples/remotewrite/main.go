// Example remotewrite shows the effect of two gateways on Prometheus's remote write, on your own machine. A
// real Prometheus scrapes two thousand series and writes them to two receivers at the same time: directly,
// and through `cinch serve --http` near it and another one beside the receiver. The receivers check every
// sample.
//
//	go run ./examples/remotewrite
//
// Prometheus and the gateways are separate processes; scripts/servers installs Prometheus. A TCP hop on each way
// counts the bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

type options struct {
	series, scrapes int
	cinch           string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("remotewrite", flag.ContinueOnError)
	f.IntVar(&o.series, "series", 2000, "number of scraped series")
	f.IntVar(&o.scrapes, "scrapes", 30, "scrapes, one a second")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	if err := rig.ParseFlags(f, args, "Prometheus' remote write, directly and through two gateways."); err != nil {
		return o, err
	}
	if o.series < 1 || o.scrapes < 2 {
		err = errors.New("--series must be at least 1, --scrapes at least 2")
	}
	return o, err
}

func run(args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work, cinch, err := rig.Workspace(o.cinch)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s := &setup{work: work, cinch: cinch, exporter: &exporter{series: o.series, most: o.scrapes}}
	defer s.stop()
	if err := s.start(); err != nil {
		return err
	}
	fmt.Printf("Prometheus scrapes %d series %d times, once a second, and writes them directly and through two gateways.\n\n", o.series, o.scrapes)
	if err := s.wait(ctx, time.Duration(o.scrapes)*time.Second+time.Minute); err != nil {
		return err
	}
	s.print()
	return nil
}
