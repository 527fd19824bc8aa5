// Example otel shows the effect of two gateways on OTLP, on your own machine. OpenTelemetry's SDKs for Go,
// Python and Node send spans, log records and metrics by HTTP, and the Go SDK also by gRPC: directly to a
// receiver, directly with the SDK's gzip, and through two gateways. The receiver checks every span, log
// record and point.
//
//	go run ./examples/otel
//	go run ./examples/otel --collector   # also through OpenTelemetry Collectors; building them first takes minutes
//
// In reading order:
//
//	main.go       options, and one sender after the other
//	shop/         the data, and the senders of it: sender/, python/, node/
//	setup.go      gateways with near.yaml and far.yaml, and the hops that count bytes
//	collector.go  the way through collectors
//	serve.go      the receiver's servers; receiver.go, its checks
//	tools.go      the senders' programs and dependencies
//	report.go     the table
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
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
	rounds    int
	pause     time.Duration
	collector bool
	cinch     string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("otel", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 30, "rounds; in each, every sender sends 200 spans, 200 log records and 112 series")
	f.DurationVar(&o.pause, "pause", 100*time.Millisecond, "time between two rounds")
	f.BoolVar(&o.collector, "collector", false, "also send through OpenTelemetry Collectors, which are built the first time")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	if err := rig.ParseFlags(f, args, "OTLP from OpenTelemetry's SDKs: uncompressed, with gzip and through two gateways."); err != nil {
		return o, err
	}
	if o.rounds < 2 || o.pause < 0 {
		err = errors.New("--rounds must be at least 2, --pause not negative")
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
	all, missing, err := senders(work)
	if err != nil {
		return err
	}
	for _, err := range missing {
		fmt.Printf("Left out: %v.\n", err)
	}
	s := &setup{work: work, cinch: cinch}
	defer s.stop()
	if err := s.start(); err != nil {
		return err
	}
	fmt.Printf("Each sender sends %d times: directly, directly with its gzip, and through two gateways.\n\n", o.rounds)
	var results []result
	for _, sender := range all {
		r, err := s.compare(ctx, o, sender)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if o.collector {
		r, err := s.compareCollectors(ctx, o, all[0])
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return show(os.Stdout, results)
}

// result holds a sender's bytes on each way, both directions together.
type result struct {
	name               string
	requests, items    int
	plain, gzip, pairs int64
}

// compare has a sender send on each way.
func (s *setup) compare(ctx context.Context, o options, x sender) (r result, err error) {
	r.name = x.name
	for _, way := range []struct {
		bytes *int64
		to    addresses
		by    *hop
		gzip  bool
	}{{&r.plain, s.direct.addresses, &s.direct, false}, {&r.gzip, s.direct.addresses, &s.direct, true}, {&r.pairs, s.near, &s.between, false}} {
		got, n, err := s.send(ctx, o, x, way.to, way.by, way.gzip)
		if err != nil {
			return r, fmt.Errorf("%s: %w", x.name, err)
		}
		*way.bytes, r.requests, r.items = n, got.requests, got.spans+got.logs+got.points
	}
	return r, nil
}

// send has a sender send to an address, and returns the receiver and the bytes that a hop has counted.
func (s *setup) send(ctx context.Context, o options, x sender, to addresses, by *hop, gzip bool) (*receiver, int64, error) {
	r := newReceiver(int64(o.rounds))
	s.server.of.Store(r)
	before := by.Bytes()
	endpoint, compression := "http://"+to.http, "none"
	if x.protocol == "grpc" {
		endpoint = "http://" + to.grpc
	}
	if gzip {
		compression = "gzip"
	}
	args := append(x.command[1:len(x.command):len(x.command)], x.protocol, strconv.Itoa(o.rounds), strconv.FormatInt(o.pause.Milliseconds(), 10))
	cmd := exec.CommandContext(ctx, x.command[0], args...)
	cmd.Env = append(append(os.Environ(), x.variables...), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION="+compression)
	if out, err := cmd.CombinedOutput(); err != nil {
		return r, 0, fmt.Errorf("%w\n%s", err, out)
	}
	if err := until(ctx, r.complete); err != nil {
		return r, 0, err
	}
	return r, by.settled() - before, nil
}

// until waits up to 20 seconds until so returns nil.
func until(ctx context.Context, so func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := so()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not all data arrived: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// settled waits until no bytes have passed for a while, and returns their number.
func (h *hop) settled() int64 {
	for last := int64(-1); ; {
		n := h.Bytes()
		if n == last {
			return n
		}
		last = n
		time.Sleep(200 * time.Millisecond)
	}
}
