package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/page"
)

// perRequest returns the bytes on the link for each answer.
func (s step) perRequest() float64 {
	return float64(s.linkBytes) / float64(max(len(s.latencies), 1))
}

// bitsPerSecond returns the link's bit rate towards the API.
func (s step) bitsPerSecond() float64 { return 8 * float64(s.linkBytes) / s.took.Seconds() }

func text(o options, all []outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d menus, %g Mbit/s and %v between API and Redis; the rule's setting is %s.\n\n", o.menus, o.mbit, o.trip, o.setting)
	fmt.Fprintf(&b, "%-8s %11s %9s %9s %9s %12s %10s %8s %8s\n", "", "requests/s", "p50 ms", "p95 ms", "p99 ms", "KB/request", "link Mbit", "gateway", "failed")
	for _, out := range all {
		for _, s := range out.steps {
			cpu := ""
			if out.setting != "" {
				cpu = fmt.Sprintf("%.2f CPU", s.gatewayCPU.Seconds()/s.took.Seconds())
			}
			fmt.Fprintf(&b, "%-8s %11.0f %9.1f %9.1f %9.1f %12.1f %10.1f %8s %8d\n", out.name, s.rate, ms(s.latencies.at(0.5)), ms(s.latencies.at(0.95)),
				ms(s.latencies.at(0.99)), s.perRequest()/1e3, s.bitsPerSecond()/1e6, cpu, s.failed)
		}
	}
	b.WriteString("\n")
	for _, out := range all {
		fmt.Fprintf(&b, "Redis holds all menus in %.1f MB %s.\n", float64(out.memory)/1e6, out.name)
	}
	return b.String()
}

// writePage draws both outcomes.
func writePage(o options, all []outcome) error {
	p, err := report(o, all[0], all[1])
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := page.Write(&b, p); err != nil {
		return err
	}
	return os.WriteFile(o.out, b.Bytes(), 0o644)
}

// peak returns the index of the load that the text compares: the first at which uncompressed menus fill the
// link.
func peak() (i int) {
	for i = range shares {
		if shares[i] >= 1 {
			break
		}
	}
	return i
}

func report(o options, before, after outcome) (*page.Page, error) {
	prices, err := price.Default()
	if err != nil {
		return nil, err
	}
	was, is := before.steps[peak()], after.steps[peak()]
	month := func(s step) float64 { return prices.Traffic(s.bitsPerSecond() / 8) }
	return &page.Page{
		Title:   "Menus through a cache",
		Subject: fmt.Sprintf("An API, %d menus in Redis, and a link of %g Mbit/s between them", o.menus, o.mbit),
		Lead: fmt.Sprintf("At the load that fills the link with plain menus, 99 %% of answers took up to %s before, and up to %s after the gateway compressed what the cache holds.",
			duration(ms(was.latencies.at(0.99))), duration(ms(is.latencies.at(0.99)))),
		Tiles: []page.Tile{
			{Name: "p99 at peak", Value: duration(ms(is.latencies.at(0.99))), Note: "before: " + duration(ms(was.latencies.at(0.99)))},
			{Name: "Over the link, a menu", Value: fmt.Sprintf("%.1f KB", is.perRequest()/1e3), Note: fmt.Sprintf("before: %.1f KB", was.perRequest()/1e3)},
			{Name: "Memory of Redis", Value: fmt.Sprintf("%.0f MB", float64(after.memory)/1e6), Note: fmt.Sprintf("before: %.0f MB", float64(before.memory)/1e6)},
			{Name: "If the link crosses zones", Value: fmt.Sprintf("$%.0f a month", month(is)), Note: fmt.Sprintf("before: $%.0f, at peak load all month", month(was))},
		},
		Sections: []page.Section{
			{
				Title: "Latency", Legend: []page.Key{{Class: "now", Name: "before: plain menus"}, {Class: "after", Name: "after: " + after.setting + " in the gateway"}},
				Words: []string{"Requests start at random times, whether or not earlier ones were answered, as with real customers; a request's time counts from its scheduled start. Axes in milliseconds are logarithmic."},
				Lines: []page.Lines{
					lines("99 % of answers took up to", "ms", true, before, after, func(s step) float64 { return ms(s.latencies.at(0.99)) }),
					lines("Half of the answers took up to", "ms", true, before, after, func(s step) float64 { return ms(s.latencies.at(0.5)) }),
				},
			},
			{
				Title: "Bytes and CPU",
				Lines: []page.Lines{
					lines("The link carries", "Mbit/s", false, before, after, func(s step) float64 { return s.bitsPerSecond() / 1e6 }),
					lines("The gateway takes", "CPUs", false, outcome{}, after, func(s step) float64 { return s.gatewayCPU.Seconds() / s.took.Seconds() }),
				},
			},
			{Title: "Measured values", Table: table(before, after)},
		},
		Footer: fmt.Sprintf("go run ./examples/redis: %d menus like those of the published case, each load for %v, a round trip of %v. Everything shares one machine, so the CPU that API, gateway, Redis and the load take from each other is in the latencies.",
			o.menus, o.step, o.trip),
	}, nil
}

func lines(title, unit string, log bool, before, after outcome, of func(step) float64) page.Lines {
	l := page.Lines{Title: title, Across: "requests/s", Up: unit, Log: log}
	for _, out := range []outcome{before, after} {
		if len(out.steps) == 0 {
			continue
		}
		s := page.Series{Class: map[bool]string{false: "now", true: "after"}[out.setting != ""]}
		for _, st := range out.steps {
			v := of(st)
			s.Points = append(s.Points, page.At{X: st.rate, Y: v, Tip: fmt.Sprintf("%s, %.0f requests/s: %.3g %s", out.name, st.rate, v, unit)})
		}
		l.Series = append(l.Series, s)
	}
	return l
}

func table(before, after outcome) *page.Table {
	t := &page.Table{Header: []page.Column{
		{Name: "", Text: true}, {Name: "requests/s"}, {Name: "p50"}, {Name: "p95", Minor: true}, {Name: "p99"}, {Name: "KB a request"}, {Name: "link, Mbit/s"}, {Name: "failed", Minor: true},
	}}
	for _, out := range []outcome{before, after} {
		for _, s := range out.steps {
			t.Rows = append(t.Rows, page.Row{Cells: []string{
				out.name, fmt.Sprintf("%.0f", s.rate), duration(ms(s.latencies.at(0.5))), duration(ms(s.latencies.at(0.95))), duration(ms(s.latencies.at(0.99))),
				fmt.Sprintf("%.1f", s.perRequest()/1e3), fmt.Sprintf("%.1f", s.bitsPerSecond()/1e6), fmt.Sprint(s.failed),
			}})
		}
	}
	return t
}

// duration formats milliseconds for people.
func duration(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.1f s", v/1000)
	}
	return fmt.Sprintf("%.*f ms", max(0, 2-int(math.Log10(max(v, 1)))), v)
}
