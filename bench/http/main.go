package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

type options struct {
	results, role, listen, to string
	http2                     bool
	beside                    string
	each                      time.Duration
	rounds                    int
	rate                      float64
}

func main() {
	var o options
	flag.StringVar(&o.results, "results", "bench/results/http-hop.md", "file for the results; empty: print only")
	flag.DurationVar(&o.each, "time", time.Second, "duration of one measurement")
	flag.IntVar(&o.rounds, "rounds", 9, "measurements of each kind")
	flag.Float64Var(&o.rate, "rate", 500, "requests a second in the measurements at a fixed rate")
	flag.BoolVar(&o.http2, "http2", false, "HTTP/2 without TLS on both sides; results are only printed")
	flag.StringVar(&o.beside, "beside", "", "another build of cinch to compare with")
	flag.StringVar(&o.role, "role", "", "internal: be a server or a proxy")
	flag.StringVar(&o.listen, "listen", "", "internal: listen address")
	flag.StringVar(&o.to, "to", "", "internal: the proxy's server")
	flag.Parse()
	run := o.run
	if o.role != "" {
		run = func() error { return serveAs(o.role, o.listen, o.to, o.http2) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o options) run() error {
	dir, err := os.MkdirTemp("", "bench-http-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &builder{dir: dir, self: self, cinch: filepath.Join(dir, "cinch"), beside: o.beside, http2: o.http2}
	defer b.stop()
	if err := rig.Build(b.cinch, "./cmd/cinch"); err != nil {
		return err
	}
	server, err := b.role("server", "")
	if err != nil {
		return err
	}
	ways, err := b.ways(server.Addr)
	if err != nil {
		return err
	}
	before := rig.LoadAverage()
	var t rig.Table
	t.Row("body", "way", "flooded: requests/s", "CPU, µs a request", fmt.Sprintf("%.0f a second: CPU, µs a request", o.rate), "p50, ms", "p99, ms", "p50 added, ms", "p99 added, ms")
	t.Rule(9)
	for _, size := range []int{1 << 10, 100 << 10} {
		if err := o.measure(&t, ways, size); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("```\n%s\n```\n\n%s. %d rounds of %v each, ways in turn, medians; load average %s before.\n\n%s", o.command(), rig.Machine(), o.rounds, o.each, before, t.String())
	fmt.Print(text)
	if o.results == "" || o.http2 {
		return nil
	}
	return rig.ReplacePart(o.results, "run", text)
}

func (o options) command() string {
	if o.http2 {
		return "go run ./bench/http -http2"
	}
	return "go run ./bench/http"
}

// figures holds the results of one way, one entry per round.
type figures struct{ rate, floodCPU, pacedCPU, p50, p99 []float64 }

func (o options) measure(t *rig.Table, ways []*way, size int) error {
	all := make([]figures, len(ways))
	for range o.rounds {
		for i, w := range ways {
			if err := o.round(&all[i], w, size); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	direct := all[0]
	for i, w := range ways {
		f := all[i]
		number := func(format string, values []float64) string { return fmt.Sprintf(format, rig.Median(values)) }
		added := func(values, base []float64) string {
			return fmt.Sprintf("%.2f", rig.Median(values)-rig.Median(base))
		}
		t.Row(fmt.Sprintf("%d KiB", size>>10), w.name, number("%.0f", f.rate), number("%.0f", f.floodCPU), number("%.0f", f.pacedCPU),
			number("%.2f", f.p50), number("%.2f", f.p99), added(f.p50, direct.p50), added(f.p99, direct.p99))
	}
	return nil
}

// round measures one way once, flooded and paced, after a warm-up that doesn't count.
func (o options) round(f *figures, w *way, size int) error {
	l := newLoad(w.addr, size, o.http2)
	defer l.client.CloseIdleConnections()
	warm, cancel := context.WithTimeout(context.Background(), o.each/2)
	l.flood(warm)
	cancel()
	n, cpu, err := o.timed(l, w, l.flood)
	if err != nil {
		return err
	}
	f.rate, f.floodCPU = append(f.rate, n/o.each.Seconds()), append(f.floodCPU, cpu)
	_, cpu, err = o.timed(l, w, func(ctx context.Context) { l.pace(ctx, o.rate) })
	if err != nil {
		return err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	f.pacedCPU, f.p50, f.p99 = append(f.pacedCPU, cpu), append(f.p50, ms(l.quantile(0.5))), append(f.p99, ms(l.quantile(0.99)))
	return nil
}

// timed returns the number of requests, and the CPU time per request of the way's processes, in microseconds.
func (o options) timed(l *load, w *way, send func(context.Context)) (n, cpu float64, err error) {
	l.took = l.took[:0]
	before, err := w.cpu()
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.each)
	defer cancel()
	send(ctx)
	after, err := w.cpu()
	if len(l.took) == 0 {
		err = errors.Join(err, errors.New("no request was answered"))
	}
	n = float64(len(l.took))
	return n, float64((after - before).Microseconds()) / n, errors.Join(err, l.failed)
}
