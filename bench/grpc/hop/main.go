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
	flag.StringVar(&o.results, "results", "../results/grpc-hop.md", "file for the results; empty: only printed")
	flag.StringVar(&o.binary, "cinch", "", "the gateway's program; empty: built from this tree")
	flag.StringVar(&o.setting, "setting", "", "compress requests and replies with this; empty: the gateway changes nothing")
	flag.IntVar(&o.size, "size", 1000, "bytes of a request and of a reply")
	flag.IntVar(&o.conns, "conns", 4, "connections of the client")
	flag.BoolVar(&o.pin, "pin", false, "give the gateway a CPU of its own")
	flag.DurationVar(&o.each, "time", 3*time.Second, "of one measurement")
	flag.IntVar(&o.reps, "reps", 5, "measurements of each kind")
	flag.StringVar(&o.role, "role", "", "internal: be a server or a client")
	flag.StringVar(&o.addr, "addr", "", "internal: where the server is")
	flag.Float64Var(&o.rate, "rate", 0, "internal: calls a second; 0: as many as go")
	flag.Uint64Var(&o.seed, "seed", 0, "internal: of the times of calls")
	flag.Parse()
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
		return fmt.Errorf("-pin needs two CPUs or more, here is one")
	}
	return measure(ctx, o)
}
