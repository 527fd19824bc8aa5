//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

type options struct {
	results string
	binary  string
	beside  string
	pair    bool
	setting string
	size    int
	conns   int
	pin     bool
	each    time.Duration
	reps    int

	role string
	addr string
	rate float64
	seed uint64
}

func main() {
	var o options
	flag.StringVar(&o.results, "results", "../results/grpc-hop.md", "file for the results; empty: print only, as with -pair or -beside")
	flag.StringVar(&o.binary, "cinch", "", "path of the gateway's program; empty: build it from this tree")
	flag.StringVar(&o.beside, "beside", "", "path of another build of the gateway's program, to compare with")
	flag.BoolVar(&o.pair, "pair", false, "two gateways with a link between them, instead of one gateway and HAProxy")
	flag.StringVar(&o.setting, "setting", "", "codec and level for requests and replies; empty: the gateway changes nothing, with -pair zstd-3")
	flag.IntVar(&o.size, "size", 1000, "bytes of a request and of a reply")
	flag.IntVar(&o.conns, "conns", 4, "connections of the client")
	flag.BoolVar(&o.pin, "pin", false, "give the gateway a CPU of its own")
	flag.DurationVar(&o.each, "time", 3*time.Second, "duration of one measurement")
	flag.IntVar(&o.reps, "reps", 5, "measurements of each kind")
	flag.StringVar(&o.role, "role", "", "internal: be a server or a client")
	flag.StringVar(&o.addr, "addr", "", "internal: address of the server")
	flag.Float64Var(&o.rate, "rate", 0, "internal: calls a second; 0: no limit")
	flag.Uint64Var(&o.seed, "seed", 0, "internal: seed of the random call times")
	flag.Parse()
	if o.pair && o.setting == "" {
		o.setting = "zstd-3"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	switch {
	case o.role == "server":
		return serve(o.addr)
	case o.role == "client":
		return printCalls(o)
	case o.pin && runtime.NumCPU() < 2:
		return fmt.Errorf("-pin needs at least two CPUs, this machine has one")
	}
	return measure(ctx, o)
}
