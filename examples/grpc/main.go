// Example grpc shows, on your own machine, what compression between availability zones saves.
// A distributor sends Prometheus remote-write requests to three receivers, one per zone, by
// unary calls with a deadline of two seconds, as Mimir and Cortex do with replication 3.
//
//	go run ./examples/grpc          bytes on the wire, and their price
//	go run ./examples/grpc --load   CPU, latency and memory at rising load
//
// Distributor, receivers and `cinch serve` are separate processes. A TCP hop on each link between zones
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

	"github.com/cinch-layer/cinch/test/rig"
)

func main() {
	var err error
	switch role, args := roleOf(os.Args[1:]); role {
	case "receiver":
		err = runReceiver(args)
	case "distributor":
		err = runDistributor(args)
	default:
		err = runExample(args)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// roleOf splits off the role of a process that this program started.
func roleOf(args []string) (role string, rest []string) {
	if len(args) > 0 && (args[0] == "receiver" || args[0] == "distributor") {
		return args[0], args[1:]
	}
	return "", args
}

type options struct {
	json     bool
	load     bool
	series   int
	requests int
	cinch    string
	out      string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("grpc", flag.ContinueOnError)
	f.BoolVar(&o.json, "json", false, "print the results as JSON")
	f.BoolVar(&o.load, "load", false, "measure at rising load, and write the table to --out; takes about ten minutes")
	f.IntVar(&o.series, "series", 2000, "series in a request")
	f.IntVar(&o.requests, "requests", 60, "requests to send, each to all three receivers")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	f.StringVar(&o.out, "out", "bench/results/grpc-load.md", "file that --load writes")
	if err := rig.ParseFlags(f, args, "A sender, three zones, replication 3: what compression between zones saves, in the programs and in gateways."); err != nil {
		return o, err
	}
	if o.series < 1 || o.requests < 1 {
		err = errors.New("--series and --requests must be at least 1")
	}
	return o, err
}

func runExample(args []string) error {
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
	o.cinch = cinch
	r := &runner{ctx: ctx, work: work, cinch: o.cinch, port: firstPort(), payloads: map[payloadKind]payloadFile{}}
	if o.load {
		return r.measureLoad(o.out)
	}
	return r.showSavings(o)
}
