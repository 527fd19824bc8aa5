//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig/proc"
)

// lowRate leaves the gateway mostly idle. Latency is measured at this rate and at fractions of the capacity.
const lowRate = 1000 // calls a second

var parts = []float64{0.10, 0.25, 0.50}

// sizeMost fits the receive windows of a stream and of a client's replies.
const sizeMost = 64 << 10

// capacity holds the highest rates that were reached.
type capacity struct {
	direct float64  // calls a second without a proxy, at the client's full speed
	lines  []string // a line of the report for each proxy
	rate   float64  // calls a second at which the gateway is saturated
}

// point holds the results at one rate.
type point struct {
	part, rate float64
	direct     []outcome
	through    []passage // by proxy, in the stage's order
}

// passage holds the results of calls through one proxy.
type passage struct {
	name    string
	outs    []outcome
	perCall []float64 // CPU of the proxy, µs
}

func measure(ctx context.Context, o options) error {
	if o.size < 1 || o.size > sizeMost {
		return fmt.Errorf("-size %d: from 1 to %d", o.size, sizeMost)
	}
	where := machine()
	s := &stage{o: o}
	defer s.clear()
	if err := s.set(ctx); err != nil {
		return err
	}
	c, err := s.capacity(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "at most %.0f calls/s\n", c.rate)
	var points []point
	for i, part := range append([]float64{lowRate / c.rate}, parts...) {
		p := point{part: part, rate: part * c.rate}
		for _, x := range s.proxies {
			p.through = append(p.through, passage{name: x.name})
		}
		for rep := range o.reps {
			if err := s.turn(ctx, &p, 100*i+rep); err != nil {
				return err
			}
		}
		points = append(points, p)
		fmt.Fprintf(os.Stderr, "%.0f %%: done\n", 100*part)
	}
	text := report(o, where, c, points)
	fmt.Print(text)
	if o.results == "" || o.pair || o.beside != "" {
		return nil
	}
	return os.WriteFile(o.results, []byte(text), 0o644)
}

// capacity lets clients send as fast as they can. Client and server may be the bottleneck if they share CPUs;
// the gateway could then handle more, in proportion to the idle part of its own CPU.
func (s *stage) capacity(ctx context.Context) (c capacity, err error) {
	direct, err := s.client(ctx, s.server, 0, 0)
	if err != nil {
		return c, err
	}
	c.direct = float64(direct.Calls) / direct.Seconds
	floods := make([][]flood, len(s.proxies))
	for range s.o.reps {
		for i, x := range s.proxies {
			f, err := s.flood(ctx, x)
			if err != nil {
				return c, err
			}
			floods[i] = append(floods[i], f)
		}
	}
	for i, x := range s.proxies {
		c.lines = append(c.lines, middle(floods[i]).line(x.name))
	}
	gateway := middle(floods[0]) // the rates are based on the first proxy, the gateway
	c.rate = gateway.through
	if s.o.pin && gateway.busy > 0 {
		c.rate = min(c.rate/min(gateway.busy, 1), c.direct) // client and server can't handle more than that
	}
	return c, nil
}

// flood holds a proxy's results when a client sends as fast as it can.
type flood struct {
	through float64 // calls a second
	busy    float64 // number of CPUs that it used
	perCall float64 // µs
}

func (s *stage) flood(ctx context.Context, x proxy) (f flood, err error) {
	if _, err := s.client(ctx, x.addr, 0, 0); err != nil { // warm-up
		return f, err
	}
	through, used, err := x.cpu(func() (outcome, error) { return s.client(ctx, x.addr, 0, 0) })
	if err != nil {
		return f, err
	}
	f.through = float64(through.Calls) / through.Seconds
	busyFor := through.Seconds + warmUp.Seconds()
	f.busy = used.Seconds() / busyFor
	f.perCall = f.busy / f.through * 1e6
	return f, nil
}

// middle returns the result with the median cost.
func middle(all []flood) flood {
	slices.SortFunc(all, func(a, b flood) int { return cmp.Compare(a.perCall, b.perCall) })
	return all[len(all)/2]
}

func (f flood) line(name string) string {
	return fmt.Sprintf("%.0f through %s, which took %.0f %% of a CPU, %.0f µs a call", f.through, name, 100*f.busy, f.perCall)
}

// cpu returns the CPU time that the proxy uses while do runs.
func (x proxy) cpu(do func() (outcome, error)) (outcome, time.Duration, error) {
	before, err := x.used()
	if err != nil {
		return outcome{}, 0, err
	}
	out, err := do()
	if err != nil {
		return out, 0, err
	}
	after, err := x.used()
	return out, after - before, err
}

// used returns the CPU time that the proxy's processes have used.
func (x proxy) used() (sum time.Duration, err error) {
	for _, pid := range x.pids {
		used, err := proc.CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// turn measures directly and through each proxy, every second time in reverse order.
func (s *stage) turn(ctx context.Context, p *point, seed int) error {
	runs := []func() error{func() error {
		out, err := s.client(ctx, s.server, p.rate, seed)
		p.direct = append(p.direct, out)
		return err
	}}
	for i, x := range s.proxies {
		runs = append(runs, func() error {
			out, used, err := x.cpu(func() (outcome, error) { return s.client(ctx, x.addr, p.rate, seed) })
			t := &p.through[i]
			t.outs = append(t.outs, out)
			t.perCall = append(t.perCall, used.Seconds()/(p.rate*(s.o.each+warmUp).Seconds())*1e6)
			return err
		})
	}
	if seed%2 == 1 {
		slices.Reverse(runs)
	}
	for _, run := range runs {
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

func report(o options, where string, c capacity, points []point) string {
	var b strings.Builder
	gateways := "one gateway, no rules: it changes nothing"
	switch {
	case o.pair:
		gateways = "two gateways with a link, whose rules say `" + o.setting + "`"
	case o.setting != "":
		gateways = "one gateway, requests and replies in `" + o.setting + "`"
	}
	fmt.Fprintf(&b, "# What a gateway adds to a gRPC call\n\n`cd bench/grpc && go run ./hop %s`, %s.\n%s.\n\n", arguments(o), time.Now().UTC().Format("2006-01-02 15:04 UTC"), where)
	fmt.Fprintf(&b, "Unary calls of %d bytes each way, %d connections; %s. ", o.size, o.conns, gateways)
	if o.pin {
		b.WriteString("Each proxy has the same CPU for itself, and client and server share the others.\n\n")
	} else {
		b.WriteString("Client, server and gateway share all CPUs.\n\n")
	}
	fmt.Fprintf(&b, "As fast as the client goes: %.0f calls/s directly; %s (medians of %d).\n", c.direct, strings.Join(c.lines, "; "), o.reps)
	fmt.Fprintf(&b, "The gateway's capacity is taken to be **%.0f calls/s**", c.rate)
	if o.pin {
		b.WriteString(", what it would do with all of its CPU, or what client and server do without it if that is less")
	}
	fmt.Fprintf(&b, ".\n\nCalls at random times (Poisson), %v a measurement, directly and through each proxy in turn. Milliseconds: medians of %d measurements;\n\"added\" are medians, and in brackets the least and most, of the differences of pairs.\n\n", o.each, o.reps)
	b.WriteString("| of capacity | calls/s | | p50 | p95 | p99 | proxy's CPU a call | failed or not sent | sent late, p99 |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range points {
		points[i].write(&b)
	}
	return b.String()
}

// arguments returns the command-line arguments of the run.
func arguments(o options) string {
	text := fmt.Sprintf("-time %v -reps %d -size %d", o.each, o.reps, o.size)
	if o.pin {
		text = "-pin " + text
	}
	if o.pair {
		text = "-pair " + text
	}
	if o.beside != "" {
		text = "-beside OTHER " + text
	}
	if o.setting != "" {
		text += " -setting " + o.setting
	}
	return text
}

func (p *point) write(b *strings.Builder) {
	row := func(what string, outs []outcome, cpu string) {
		failed := 0
		for _, out := range outs {
			failed += out.Failed + out.Skipped
		}
		fmt.Fprintf(b, "| %.0f %% | %.0f | %s | %.3f | %.3f | %.3f | %s | %d | %.3f |\n", 100*p.part, p.rate, what,
			median(outs, outcome.p50), median(outs, outcome.p95), median(outs, outcome.p99), cpu, failed, median(outs, outcome.late))
	}
	row("direct", p.direct, "")
	for _, t := range p.through {
		row(t.name, t.outs, fmt.Sprintf("%.0f µs", medianOf(t.perCall)))
		fmt.Fprintf(b, "| %.0f %% | | **added** by %s | %s | %s | %s | | | |\n", 100*p.part, t.name,
			added(p.direct, t.outs, outcome.p50), added(p.direct, t.outs, outcome.p95), added(p.direct, t.outs, outcome.p99))
	}
}

// added returns by how much calls through a proxy exceed direct calls at the same time: median, least and
// most.
func added(direct, through []outcome, of func(outcome) float64) string {
	var all []float64
	for i := range direct {
		all = append(all, of(through[i])-of(direct[i]))
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", medianOf(all), slices.Min(all), slices.Max(all))
}

func (o outcome) p50() float64  { return o.P50 }
func (o outcome) p95() float64  { return o.P95 }
func (o outcome) p99() float64  { return o.P99 }
func (o outcome) late() float64 { return o.Late }

func median(outs []outcome, of func(outcome) float64) float64 {
	var all []float64
	for _, out := range outs {
		all = append(all, of(out))
	}
	return medianOf(all)
}

func medianOf(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
