// Command telemetry measures the size of telemetry on the wire: OTLP from STEF's public corpora and
// Prometheus's WriteRequests, compressed by message and with the history of earlier ones, as on a link
// between two gateways, but without the network. It also measures metrics, traces and logs that
// OpenTelemetry's SDK sends (bench/grpc/otlp), and how the libraries of STEF and OTel-Arrow encode the same
// messages (peers, a module of its own).
//
//	go run ./bench/telemetry [-corpora DIR] [-only hosts] [-results bench/results]
//
// DIR is a checkout of github.com/splunk/stef. Nothing is downloaded; corpora that are missing are skipped.
// Every message must come back unchanged. Sizes depend on the code alone, CPU times also on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

type options struct {
	corpora, results string
	only, ways       *regexp.Regexp
	rounds           int
	visits           int
	peers            bool
}

func main() {
	var o options
	var only, named string
	flag.StringVar(&o.corpora, "corpora", "", "directory of a checkout of github.com/splunk/stef")
	flag.StringVar(&o.results, "results", "", "directory for telemetry.md and telemetry.csv; empty: print only")
	flag.StringVar(&only, "only", "", "measure payloads whose names match this regular expression")
	flag.StringVar(&named, "ways", "", "measure methods whose names match this regular expression, and S2")
	flag.IntVar(&o.visits, "visits", 4000, "shop visits that OpenTelemetry's SDK reports; 0: none")
	flag.BoolVar(&o.peers, "peers", true, "measure STEF's and OTel-Arrow's libraries on OTLP, if bench/telemetry/peers builds")
	flag.IntVar(&o.rounds, "rounds", 3, "runs; the median time is reported")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if o.only, err = regexp.Compile(only); err == nil {
		if o.ways, err = regexp.Compile(named); err == nil {
			err = run(ctx, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	runtime.LockOSThread() // only the CPU time of this thread counts
	all, err := payloadsOf(ctx, o)
	if err != nil {
		return err
	}
	r, err := newReport(o)
	if err != nil {
		return err
	}
	if o.peers {
		work, err := os.MkdirTemp("", "cinch-telemetry-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if r.program, err = buildPeers(ctx, work); err != nil {
			fmt.Fprintln(os.Stderr, "skipping the peers' libraries:", err)
		}
	}
	for _, p := range all {
		if err := r.measure(ctx, p); err != nil {
			return err
		}
	}
	fmt.Print(r.table.String())
	if o.results == "" {
		return nil
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "telemetry.csv"), r.rows); err != nil {
		return err
	}
	return rig.ReplacePart(filepath.Join(o.results, "telemetry.md"), "figures", r.table.String())
}

// payload is a list of messages of one kind.
type payload struct {
	name     string
	unit     string // what is counted
	kind     string // OTLP's name for it: metrics, traces or logs; "": no OTLP
	units    int
	messages [][]byte
	varies   bool // sizes vary from run to run, so they can't show a regression
	peers    []peer
}

// peer is a published result of another project for the same data, in bytes per unit.
type peer struct {
	name  string
	bytes float64
}

func (p *payload) bytes() (n int) {
	for _, m := range p.messages {
		n += len(m)
	}
	return n
}

// payloadsOf returns the payloads to measure.
func payloadsOf(ctx context.Context, o options) (all []payload, err error) {
	for _, c := range corpora {
		if !o.only.MatchString(c.name) || o.corpora == "" {
			continue
		}
		p, err := c.load(filepath.Join(o.corpora, testdata))
		if os.IsNotExist(err) {
			fmt.Fprintf(os.Stderr, "%s: skipped: %v\n", c.name, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, p)
	}
	recorded, err := recordedBySDK(ctx, o)
	if err != nil {
		return nil, err
	}
	written, err := writeRequests(ctx, o)
	return append(append(all, recorded...), written...), err
}

// writeRequests returns the payloads of bench/tunnel.
func writeRequests(ctx context.Context, o options) (all []payload, err error) {
	const series, requests, scrapes, often = 2000, 40, 4, 20
	var c *remotewrite.Corpus
	for _, p := range []struct {
		name string
		make func() [][]byte
	}{
		{"A, as scraped", func() [][]byte { return c.Scraped(series, requests) }},
		{"A, scraped four times", func() [][]byte { return c.Rescraped(series, requests, scrapes) }},
		{"A, scraped twenty times", func() [][]byte { return c.Rescraped(series, requests, often) }},
		{"B, shuffled", func() [][]byte { return c.Shuffled(series, requests) }},
	} {
		if !o.only.MatchString(p.name) {
			continue
		}
		if c == nil {
			if c, err = remotewrite.Load(ctx); err != nil {
				return nil, err
			}
		}
		all = append(all, payload{name: p.name, unit: "sample", units: series * requests, messages: p.make()})
	}
	return all, nil
}

func percent(part, whole int) string {
	return strings.TrimSpace(fmt.Sprintf("%+.1f %%", 100*(float64(part)/float64(whole)-1)))
}
