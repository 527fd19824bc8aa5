package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// show prints the table.
func show(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "sender\trequests\titems\tbytes an item: as it is\tits gzip\ttwo gateways\tless than gzip\t")
	for _, r := range results {
		each := func(bytes int64) float64 { return float64(bytes) / float64(max(r.items, 1)) }
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f%%\t\n", r.name, r.requests, r.items, each(r.plain), each(r.gzip), each(r.pairs), 100*(1-float64(r.pairs)/float64(max(r.gzip, 1))))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, "\nAll spans, log records and points arrived on each path once, with their values. Bytes are those of the TCP streams, both directions, with headers\n"+
		"and answers. Traffic within a zone costs nothing: check first whether the collector can run where its senders are\n"+
		"(Kubernetes: trafficDistribution: PreferSameZone). cinch plan --otlp estimates your own saving in money.\n")
	return err
}
