// Command grpc compares compressors of gRPC messages: those of grpc-go, dskit, Mimir and go-grpc-compression,
// and those of codec/grpccodec. It is a module of its own, so that its dependencies are not the product's.
//
//	cd bench/grpc && go run .
//
// Bytes and allocations depend on the code alone; CPU and heap also depend on the machine. Every codec's CPU
// time is measured in turn with that of Mimir's S2, and only the ratio is reported.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

type options struct {
	results string
	only    string
	of      string
	pair    time.Duration
	pairs   int
	heap    bool
	child   string
	proto   bool
	history bool
}

func main() {
	var o options
	flag.StringVar(&o.results, "results", "../results", "directory for the results; empty: print only")
	flag.StringVar(&o.only, "only", "", "measure codecs whose names match this regular expression, and write nothing")
	flag.StringVar(&o.of, "payloads", "", "with -proto: measure only payloads whose names match this regular expression, and write nothing")
	flag.DurationVar(&o.pair, "batch", 150*time.Millisecond, "CPU time of one batch")
	flag.IntVar(&o.pairs, "pairs", 11, "batches of each codec, alternating with as many of S2")
	flag.BoolVar(&o.heap, "heap", true, "measure the peak heap, in separate processes")
	flag.BoolVar(&o.proto, "proto", false, "measure cinch-proto, and write proto.md and proto.csv")
	flag.BoolVar(&o.history, "history", false, "measure messages compressed with the history of earlier ones, and write history.csv and a part of tunnel.md")
	flag.StringVar(&o.child, "peak-of", "", "internal: print the peak heap of one codec")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	corpus, err := remotewrite.Load(ctx)
	if err != nil {
		return err
	}
	if o.child != "" {
		return printPeak(o.child, corpus)
	}
	if o.proto {
		return measureProto(ctx, o, corpus)
	}
	if o.history {
		return measureHistory(ctx, o, corpus)
	}
	return measureAll(ctx, o, payloadsOf(corpus))
}

// payload is a list of messages of one kind.
type payload struct {
	name     string
	what     string
	messages [][]byte
}

func payloadsOf(c *remotewrite.Corpus) []payload {
	return []payload{
		{"A2000", "scrape order, 2,000 series", c.Scraped(2000, 24)},
		{"A50", "scrape order, 50 series", c.Scraped(50, 400)},
		{"B2000", "real label sets, shuffled, 2,000 series", c.Shuffled(2000, 10)},
		{"B50", "real label sets, shuffled, 50 series", c.Shuffled(50, 400)},
	}
}

func (p payload) bytes() (n int) {
	for _, m := range p.messages {
		n += len(m)
	}
	return n
}
