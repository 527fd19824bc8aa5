//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/bench/rig/proc"
)

// parts of the gateway's capacity at which latency is measured.
var parts = []float64{0.10, 0.25, 0.50}

// sizeMost fits the windows of a stream, and of the replies that a client has.
const sizeMost = 64 << 10

// capacity is what the gateway does at most.
type capacity struct {
	direct  float64 // calls a second without it, where the client goes as fast as it can
	through float64
	busy    float64 // CPUs that the gateway used
	perCall time.Duration
	rate    float64 // calls a second when it is what is full
}

// point is one rate.
type point struct {
	part, rate      float64
	direct, through []outcome
	perCall         []float64 // CPU of the gateway, µs
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
	for i, part := range parts {
		p := point{part: part, rate: part * c.rate}
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
	if o.results == "" {
		return nil
	}
	return os.WriteFile(o.results, []byte(text), 0o644)
}

// capacity lets clients go as fast as they can. What is full then may be client and server,
// when they share CPUs: the gateway could do more, by as much as its own CPU is idle.
func (s *stage) capacity(ctx context.Context) (c capacity, err error) {
	direct, err := s.client(ctx, s.server, 0, 0)
	if err != nil {
		return c, err
	}
	c.direct = float64(direct.Calls) / direct.Seconds
	if _, err := s.client(ctx, s.gateway, 0, 0); err != nil { // it warms up
		return c, err
	}
	through, used, err := s.gatewayCPU(func() (outcome, error) { return s.client(ctx, s.gateway, 0, 0) })
	if err != nil {
		return c, err
	}
	c.through = float64(through.Calls) / through.Seconds
	busyFor := through.Seconds + warmUp.Seconds()
	c.busy = used.Seconds() / busyFor
	c.perCall = time.Duration(used.Seconds() / (c.through * busyFor) * 1e9)
	c.rate = c.through
	if s.o.pin && c.busy > 0 {
		c.rate = c.through / min(c.busy, 1)
	}
	return c, nil
}

func (s *stage) gatewayCPU(do func() (outcome, error)) (outcome, time.Duration, error) {
	before, err := proc.CPU(s.pid)
	if err != nil {
		return outcome{}, 0, err
	}
	out, err := do()
	if err != nil {
		return out, 0, err
	}
	after, err := proc.CPU(s.pid)
	return out, after - before, err
}

// turn measures directly and through the gateway, first the one or the other.
func (s *stage) turn(ctx context.Context, p *point, seed int) error {
	direct := func() error {
		out, err := s.client(ctx, s.server, p.rate, seed)
		p.direct = append(p.direct, out)
		return err
	}
	through := func() error {
		out, used, err := s.gatewayCPU(func() (outcome, error) { return s.client(ctx, s.gateway, p.rate, seed) })
		p.through = append(p.through, out)
		calls := p.rate * (s.o.each + warmUp).Seconds()
		p.perCall = append(p.perCall, used.Seconds()/calls*1e6)
		return err
	}
	if seed%2 == 1 {
		direct, through = through, direct
	}
	if err := direct(); err != nil {
		return err
	}
	return through()
}

func report(o options, where string, c capacity, points []point) string {
	var b strings.Builder
	setting := "no rules: it changes nothing"
	if o.setting != "" {
		setting = "requests and replies in `" + o.setting + "`"
	}
	fmt.Fprintf(&b, "# What a gateway adds to a gRPC call\n\n`cd bench/grpc && go run ./hop %s`, %s.\n%s.\n\n", arguments(o), time.Now().UTC().Format("2006-01-02 15:04 UTC"), where)
	fmt.Fprintf(&b, "Unary calls of %d bytes each way, %d connections; one gateway, %s. ", o.size, o.conns, setting)
	if o.pin {
		b.WriteString("The gateway has one CPU, and client and server share the others.\n\n")
	} else {
		b.WriteString("Client, server and gateway share all CPUs.\n\n")
	}
	fmt.Fprintf(&b, "As fast as the client goes: %.0f calls/s directly, %.0f through the gateway, which took %.0f %% of a CPU, %.0f µs a call.\n",
		c.direct, c.through, 100*c.busy, float64(c.perCall.Nanoseconds())/1e3)
	fmt.Fprintf(&b, "Its capacity is taken to be **%.0f calls/s**", c.rate)
	if o.pin {
		b.WriteString(", what it would do with all of its CPU")
	}
	fmt.Fprintf(&b, ".\n\nCalls at random times (Poisson), %v a measurement, directly and through the gateway in turn. Milliseconds: medians of %d measurements;\n\"added\" are medians, and in brackets the least and most, of the differences of pairs.\n\n", o.each, o.reps)
	b.WriteString("| of capacity | calls/s | | p50 | p95 | p99 | gateway's CPU a call | failed or not sent | sent late, p99 |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range points {
		points[i].write(&b)
	}
	return b.String()
}

// arguments repeats what is not default.
func arguments(o options) string {
	text := fmt.Sprintf("-time %v -reps %d -size %d", o.each, o.reps, o.size)
	if o.pin {
		text = "-pin " + text
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
	row("gateway", p.through, fmt.Sprintf("%.0f µs", medianOf(p.perCall)))
	fmt.Fprintf(b, "| %.0f %% | | **added** | %s | %s | %s | | | |\n", 100*p.part, p.added(outcome.p50), p.added(outcome.p95), p.added(outcome.p99))
}

func (p *point) added(of func(outcome) float64) string {
	var all []float64
	for i := range p.direct {
		all = append(all, of(p.through[i])-of(p.direct[i]))
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
